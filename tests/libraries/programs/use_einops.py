import torch
from einops import einsum, pack, rearrange, reduce, repeat
from einops.layers.torch import Rearrange

torch.manual_seed(0)
x = torch.arange(24.0).reshape(2, 3, 4).requires_grad_()
y = rearrange(x, "a b c -> b (a c)")
print(y)
print(reduce(x, "a b c -> a b", "mean"), repeat(x[0], "b c -> b c r", r=2).shape)
m = torch.nn.Sequential(Rearrange("b h w -> b (h w)"), torch.nn.Linear(12, 3))
loss = m(x).square().sum()
loss.backward()
print(loss, x.grad)
print(einsum(x, x, "a b c, a d c -> a b d"))
p, ps = pack([x[0], x[0, 0]], "* c")
print(p.shape, ps)
