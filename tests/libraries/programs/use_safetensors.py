import tempfile
from pathlib import Path

import torch
from safetensors.torch import load, load_model, save, save_model

torch.manual_seed(0)
first, second = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
with tempfile.TemporaryDirectory() as home:
    path = str(Path(home, "model.safetensors"))
    save_model(first, path)
    print(load_model(second, path))
print(second.weight)
back = load(
    save({"a": torch.arange(6).reshape(2, 3), "b": torch.ones(2).half(), "c": torch.ones(2).bfloat16()})
)
print(sorted(back.items()))
