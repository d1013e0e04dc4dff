import torch
import torchsde


class Drifting(torch.nn.Module):
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self):
        super().__init__()
        self.drift, self.spread = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def f(self, t, y):
        return self.drift(y)

    def g(self, t, y):
        return self.spread(y).sigmoid()


torch.manual_seed(0)
sde = Drifting()
start, times = torch.full((4, 3), 0.1), torch.linspace(0, 1, 5)


def noise(seed):
    return torchsde.BrownianInterval(
        t0=0.0, t1=1.0, size=(4, 3), entropy=seed, levy_area_approximation="space-time"
    )


for method in ("euler", "milstein", "srk"):
    ys = torchsde.sdeint(sde, start, times, bm=noise(7), method=method, dt=0.1)
    print(method, ys[-1].mean(), ys.std())
optimizer = torch.optim.Adam(sde.parameters(), 1e-2)
for step in range(3):
    loss = torchsde.sdeint(sde, start, times, bm=noise(step), method="euler", dt=0.1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
Drifting.sde_type = "stratonovich"
torchsde.sdeint_adjoint(sde, start, times, bm=noise(3), method="midpoint", dt=0.1).square().mean().backward()
print(sde.drift.weight.grad)
