import pyro
import pyro.distributions as dist
import torch
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from pyro.optim import Adam

pyro.set_rng_seed(0)
pyro.clear_param_store()
data = torch.randn(20) + 3


def model(d):
    mu = pyro.sample("mu", dist.Normal(0.0, 10.0))
    with pyro.plate("d", len(d)):
        pyro.sample("x", dist.Normal(mu, 1.0), obs=d)


def guide(d):
    a = pyro.param("a", torch.tensor(0.0))
    b = pyro.param("b", torch.tensor(1.0), constraint=dist.constraints.positive)
    pyro.sample("mu", dist.Normal(a, b))


svi = SVI(model, guide, Adam({"lr": 0.1}), Trace_ELBO())
print([round(svi.step(data), 3) for _ in range(10)])
print(pyro.param("a"), pyro.param("b"))
mc = MCMC(NUTS(model), num_samples=10, warmup_steps=10, disable_progbar=True)
mc.run(data)
print(mc.get_samples()["mu"].mean())
