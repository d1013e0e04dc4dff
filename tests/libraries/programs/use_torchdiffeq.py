import torch
from torchdiffeq import odeint, odeint_adjoint

torch.manual_seed(0)


class F(torch.nn.Module):
    def __init__(s):
        super().__init__()
        s.n = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))

    def forward(s, t, y):
        return s.n(y)


f = F()
y0 = torch.tensor([[1.0, 0.0]])
t = torch.linspace(0, 1, 5)
for m in ("dopri5", "rk4", "euler", "adaptive_heun", "bosh3"):
    print(m, odeint(f, y0, t, method=m)[-1])
loss = odeint_adjoint(f, y0, t).square().sum()
loss.backward()
print(loss, f.n[0].weight.grad[:2])
