import torch
from tensordict import LazyStackedTensorDict, TensorDict, tensorclass
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
td = TensorDict({"a": torch.randn(3, 4), "b": {"c": torch.ones(3)}}, batch_size=[3])
print(td)
print(torch.cat([td, td]).shape, td.reshape(3, 1).shape, td.unsqueeze(0).shape, td.exp()["a"].sum())
print((td * 2)["b", "c"], td.apply(lambda x: x + 1)["b", "c"], sorted(map(str, td.keys(True, True))))

model = TensorDictSequential(
    TensorDictModule(nn.Linear(4, 5), in_keys=["a"], out_keys=["h"]),
    TensorDictModule(nn.Tanh(), in_keys=["h"], out_keys=["y"]),
)
out = model(td)
print(out["y"].shape, out["y"].sum())
out["y"].sum().backward()
print([p.grad.sum() for p in model.parameters()])
params = TensorDict.from_module(model)
print(sorted(map(str, params.keys(True, True))))
with params.data.clone().zero_().to_module(model):
    print(model(td)["y"].abs().sum())

print(torch.vmap(lambda t: t["a"].sum() * t["b", "c"])(td))
print(torch.vmap(lambda t: t.apply(lambda x: x * 2))(td)["a"].shape)


@tensorclass
class Data:
    x: torch.Tensor
    y: torch.Tensor


data = Data(x=torch.zeros(4, 2), y=torch.arange(4), batch_size=[4])
print(data[1:3].y, torch.stack([data, data]).x.shape)
print([b["a"].shape for b in DataLoader(td, batch_size=2, collate_fn=lambda x: x)])
lazy = LazyStackedTensorDict.lazy_stack([td, td.clone()], 0)
print(lazy.shape, lazy["b", "c"].shape)
