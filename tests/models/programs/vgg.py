"""Convolutions and pooling from a list, then linear layers with dropout."""

import torch
from torch import nn

CONFIG = [8, "M", 16, 16, "M"]


def make_layers(config, batch_norm=False):
    layers, channels = [], 3
    for v in config:
        if v == "M":
            layers += [nn.MaxPool2d(kernel_size=2, stride=2)]
        else:
            conv2d = nn.Conv2d(channels, v, kernel_size=3, padding=1)
            layers += (
                [conv2d, nn.BatchNorm2d(v), nn.ReLU(inplace=True)] if batch_norm else [conv2d, nn.ReLU(True)]
            )
            channels = v
    return nn.Sequential(*layers)


class VGG(nn.Module):
    def __init__(self, features, num_classes=5):
        super().__init__()
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d((3, 3))
        self.classifier = nn.Sequential(
            nn.Linear(16 * 3 * 3, 32), nn.ReLU(True), nn.Dropout(p=0.5), nn.Linear(32, num_classes)
        )

    def forward(self, x):
        x = self.avgpool(self.features(x))
        return self.classifier(torch.flatten(x, 1))


def make():
    model = VGG(make_layers(CONFIG))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)


def batch():
    return torch.rand(3, 3, 16, 20), torch.randint(0, 5, (3,))


def loss(model, images, labels):
    return nn.CrossEntropyLoss()(model(images), labels)
