import torch
from torchinfo import summary

print(
    summary(
        torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)), input_size=(3, 4)
    )
)
print(
    summary(
        torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.MaxPool2d(2)),
        input_size=(1, 3, 16, 16),
    )
)
