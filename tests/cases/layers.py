"""Cases of normalisation, recurrent networks and attention."""

from __future__ import annotations

from typing import Any

from tests.cases.making import FLOATS, NARROW, F, Operands, case, op

# ---- normalisation
NORM: dict[str, Any] = {"where": F, "forms": "", "dtypes": FLOATS}
op("layer_norm", ((5, 4),), ((2, 3, 4),), ((0, 4),), ((2, 100, 4),), args=((4,),), **NORM)
case(
    "layer_norm_affine",
    lambda T, x, w, b: T.nn.functional.layer_norm(x, (3, 4), w, b, 0.1),
    ((5, 3, 4), (3, 4), (3, 4)),
    ((70, 3, 4), (3, 4), (3, 4)),
    ((3, 4), (3, 4), (3, 4)),
    dtypes=FLOATS,
)
case(
    "layer_norm_weight",
    lambda T, x, w: T.nn.functional.layer_norm(x, (4,), w),
    ((5, 4), (4,)),
    dtypes=FLOATS,
)
case(
    "native_layer_norm",
    lambda T, x, w, b: T.native_layer_norm(x, (4,), w, b, 0.1)[0],
    ((5, 4), (4,), (4,)),
    ((2, 3, 4), (4,), (4,)),
    dtypes=FLOATS,
)
op("rms_norm", ((5, 4),), ((2, 3, 4),), ((0, 4),), args=((4,),), **NORM)
case(
    "rms_norm_weight",
    lambda T, x, w: T.nn.functional.rms_norm(x, (3, 4), w, 0.1),
    ((5, 3, 4), (3, 4)),
    ((70, 3, 4), (3, 4)),
    dtypes=FLOATS,
)
CHANNELS: tuple[Operands, ...] = (
    ((5, 4), (4,), (4,)),
    ((5, 4, 3), (4,), (4,)),
    ((5, 1, 3, 2), (1,), (1,)),
    ((2, 2, 90), (2,), (2,)),
)
case(
    "batch_norm",
    lambda T, x, w, b: T.nn.functional.batch_norm(x, None, None, w, b, training=True),
    *CHANNELS,
    dtypes=FLOATS,
)
case(
    "batch_norm_plain",
    lambda T, x: T.nn.functional.batch_norm(x, None, None, training=True, eps=0.1),
    ((5, 4),),
    ((5, 4, 3),),
    dtypes=FLOATS,
)
case(
    "batch_norm_fixed",
    lambda T, x, w, b: T.nn.functional.batch_norm(
        x, T.full_like(w, 0.3).detach(), T.full_like(w, 2.0).detach(), w, b, eps=0.1
    ),
    *CHANNELS,
    dtypes=FLOATS,
    unlike=NARROW,  # both round between steps, not the same ones
)
# ---- recurrent networks
for name, gates in (("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)):
    case(
        f"{name}_cell",
        lambda T, x, h, *w, n=f"{name}_cell": getattr(T, n)(x, h, *w),
        ((2, 3), (2, 4), (4 * gates, 3), (4 * gates, 4), (4 * gates,), (4 * gates,)),
        ((3, 2), (3, 35), (35 * gates, 2), (35 * gates, 35)),
        dtypes=FLOATS,
        steps=True,
        strides=False,
        rounds=True,
    )
    case(
        name,
        lambda T, x, h, *w, n=name: getattr(T, n)(x, h, w, True, 1, 0.0, False, True, False)[0],
        ((3, 2, 3), (2, 2, 2), *[(2 * gates, 3), (2 * gates, 2), (2 * gates,), (2 * gates,)] * 2),
        dtypes=FLOATS,
        steps=True,
        strides=False,
        rounds=True,
    )
case(
    "lstm_cell",
    lambda T, x, h, c, *w: T.cat(T.lstm_cell(x, (h, c), *w)),  # one node here, of several in PyTorch
    ((2, 3), (2, 4), (2, 4), (16, 3), (16, 4), (16,), (16,)),
    dtypes=FLOATS,
    steps=True,
    strides=False,
    rounds=True,
)
case(
    "lstm_projected",
    lambda T, x, h, c, *w: T.lstm(x, (h, c), w, True, 1, 0.0, False, False, True)[:2],
    ((2, 3, 3), (1, 2, 2), (1, 2, 4), (16, 3), (16, 2), (16,), (16,), (2, 4)),
    dtypes=FLOATS,
    steps=True,
    strides=False,
    rounds=True,
)
# ---- attention
ATTENTION: tuple[Operands, ...] = (
    ((2, 3, 4), (2, 5, 4), (2, 5, 6)),
    ((2, 1), (3, 1), (3, 1)),
    ((2, 2, 35, 3), (1, 2, 17, 3), (2, 1, 17, 2)),
    ((0, 3, 4), (0, 5, 4), (0, 5, 4)),
    ((2, 0, 4), (2, 5, 4), (2, 5, 4)),
    ((2, 3, 4), (2, 0, 4), (2, 0, 4)),
)
for name, settings in (("", {}), ("/causal", {"is_causal": True}), ("/scale", {"scale": -0.7})):
    case(
        f"attention{name}",
        lambda T, q, k, v, s=settings: T.nn.functional.scaled_dot_product_attention(q, k, v, **s),
        *ATTENTION,
        dtypes=FLOATS,
        steps=True,
        rounds=True,
    )
for name, kind in (("seen", "bool"), ("added", None)):
    case(
        f"attention/{name}",
        lambda T, q, k, v, m: T.nn.functional.scaled_dot_product_attention(q, k, v, m),
        ((2, 3, 4), (2, 5, 4), (2, 5, 6), (3, 5)),
        ((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 3), (2, 1, 1, 5)),
        ((2, 17, 3), (2, 35, 3), (2, 35, 2), (17, 1)),
        kinds=(None, None, None, kind),
        dtypes=FLOATS,
        steps=True,
        rounds=True,
    )
case(
    "attention/groups",
    lambda T, q, k, v: T.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True),
    ((2, 4, 3, 4), (2, 2, 5, 4), (2, 2, 5, 6)),
    ((4, 3, 4), (1, 5, 4), (1, 5, 4)),
    ((6, 3, 4), (2, 5, 4), (3, 5, 4)),
    dtypes=FLOATS,
    steps=True,
    rounds=True,
)
