import math

import gpytorch
import torch

torch.manual_seed(0)
x = torch.linspace(0, 1, 20)
y = torch.sin(x * 2 * math.pi) + torch.randn(20) * 0.1


class GP(gpytorch.models.ExactGP):
    def __init__(s, x, y, lik):
        super().__init__(x, y, lik)
        s.mean_module = gpytorch.means.ConstantMean()
        s.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(s, x):
        return gpytorch.distributions.MultivariateNormal(s.mean_module(x), s.covar_module(x))


lik = gpytorch.likelihoods.GaussianLikelihood()
m = GP(x, y, lik)
m.train()
lik.train()
opt = torch.optim.Adam(m.parameters(), lr=0.1)
mll = gpytorch.mlls.ExactMarginalLogLikelihood(lik, m)
for _ in range(10):
    opt.zero_grad()
    loss = -mll(m(x), y)
    loss.backward()
    opt.step()
    print(f"{loss.item():.4f}")
m.eval()
lik.eval()
with torch.no_grad():
    p = lik(m(torch.linspace(0, 1, 5)))
    print(p.mean, p.variance)
