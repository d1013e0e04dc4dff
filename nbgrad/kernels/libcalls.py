"""What LLVM may call to convert a float16, written in LLVM's own language, and made known to the linker.

Promises a kernel that no such call is left unresolved. Numba links no compiler's runtime, and which conversions are single
instructions is for LLVM to say: every one of them on ARM, on x86 none but those from and to float32, and there only with F16C. It may
make one where the source has none: of `copysign(half, double)` it made `__truncdfhf2`, and the process died in the linker.
"""

from __future__ import annotations

# By the name that LLVM calls, the function of the text. A definition by that name itself would be taken for the runtime's.
NAMES = {
    "__truncsfhf2": "half_of_single",
    "__truncdfhf2": "half_of_double",
    "__extendhfsf2": "single_of_half",
    "__extendhfdf2": "double_of_half",
}
# `nearest` rounds to even what the bits of a float32 without its sign say.
TEXT = """
define internal i16 @nearest(i32 %a) {
  %rest = lshr i32 %a, 13
  %odd = and i32 %rest, 1
  %up = add i32 %odd, 4095
  %scaled = sub i32 %a, 939524096          ; the exponents begin 112 apart
  %rounded = add i32 %scaled, %up
  %normal = lshr i32 %rounded, 13
  %value = bitcast i32 %a to float
  %sum = fadd float %value, 5.0e-1         ; whose last bit is worth 2**-24, as the last of a subnormal float16
  %sum_bits = bitcast float %sum to i32
  %subnormal = sub i32 %sum_bits, 1056964608
  %payload = and i32 %rest, 1023
  %nan = or i32 %payload, 32256
  %is_small = icmp ult i32 %a, 947912704   ; 2**-14
  %is_large = icmp uge i32 %a, 1199570944  ; 65520, halfway between the largest float16 and what would follow
  %is_nan = icmp ugt i32 %a, 2139095040
  %r0 = select i1 %is_small, i32 %subnormal, i32 %normal
  %r1 = select i1 %is_large, i32 31744, i32 %r0
  %r2 = select i1 %is_nan, i32 %nan, i32 %r1
  %r = trunc i32 %r2 to i16
  ret i16 %r
}

define half @half_of_single(float %x) {
  %bits = bitcast float %x to i32
  %a = and i32 %bits, 2147483647
  %r = call i16 @nearest(i32 %a)
  %high = lshr i32 %bits, 16
  %half = trunc i32 %high to i16
  %sign = and i16 %half, -32768
  %signed = or i16 %r, %sign
  %y = bitcast i16 %signed to half
  ret half %y
}

define half @half_of_double(double %x) {
  %bits = bitcast double %x to i64
  %a = and i64 %bits, 9223372036854775807
  %cut = lshr i64 %a, 29
  %lost = and i64 %a, 536870911
  %inexact = icmp ne i64 %lost, 0
  %sticky = zext i1 %inexact to i64
  %odd = or i64 %cut, %sticky              ; rounded to odd, so that rounding again is as if it were the first time
  %scaled = sub i64 %odd, 7516192768       ; the exponents begin 896 apart
  %quiet = or i64 %cut, 4194304
  %payload = and i64 %quiet, 8388607
  %nan = or i64 %payload, 2139095040
  %is_small = icmp ult i64 %odd, 8329887744  ; 2**-30
  %is_large = icmp uge i64 %odd, 8724152320  ; 2**17
  %is_nan = icmp ugt i64 %a, 9218868437227405312
  %f0 = select i1 %is_small, i64 0, i64 %scaled
  %f1 = select i1 %is_large, i64 2139095040, i64 %f0
  %f2 = select i1 %is_nan, i64 %nan, i64 %f1
  %f = trunc i64 %f2 to i32
  %r = call i16 @nearest(i32 %f)
  %high = lshr i64 %bits, 48
  %half = trunc i64 %high to i16
  %sign = and i16 %half, -32768
  %signed = or i16 %r, %sign
  %y = bitcast i16 %signed to half
  ret half %y
}

define float @single_of_half(half %x) {
  %bits = bitcast half %x to i16
  %wide = zext i16 %bits to i32
  %a = and i32 %wide, 32767
  %shifted = shl i32 %a, 13
  %normal = add i32 %shifted, 939524096
  %special = add i32 %normal, 939524096
  %above = add i32 %normal, 8388608
  %above_value = bitcast i32 %above to float
  %difference = fsub float %above_value, 0x3F10000000000000  ; 2**-14
  %subnormal = bitcast float %difference to i32
  %is_small = icmp ult i32 %a, 1024
  %is_special = icmp uge i32 %a, 31744
  %r0 = select i1 %is_small, i32 %subnormal, i32 %normal
  %r1 = select i1 %is_special, i32 %special, i32 %r0
  %masked = and i32 %wide, 32768
  %sign = shl i32 %masked, 16
  %signed = or i32 %r1, %sign
  %y = bitcast i32 %signed to float
  ret float %y
}

define double @double_of_half(half %x) {
  %f = call float @single_of_half(half %x)
  %y = fpext float %f to double
  ret double %y
}
"""
