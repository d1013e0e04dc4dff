"""Pictures from a few numbers: a variational autoencoder of convolutions."""

import torch
from torch import nn
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self, latent=5):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 6, 3, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(6, 8, 3, stride=2, padding=1),
            nn.ELU(),
        )
        self.fc21, self.fc22 = nn.Linear(8 * 3 * 3, latent), nn.Linear(8 * 3 * 3, latent)
        self.fc3 = nn.Linear(latent, 8 * 3 * 3)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(8, 6, 3, stride=2, padding=1, output_padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(6, 1, 4, stride=2, padding=1),
            nn.Sigmoid(),
        )

    def encode(self, x):
        h = self.encoder(x).flatten(1)
        return self.fc21(h), self.fc22(h)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = self.reparameterize(mu, logvar)
        return self.decoder(self.fc3(z).view(-1, 8, 3, 3)), mu, logvar


def make():
    model = VAE()
    return model, torch.optim.Adam(model.parameters(), lr=1e-3), None


def batch():
    return (torch.rand(4, 1, 12, 12),)


def loss(model, x):
    recon, mu, logvar = model(x)
    bce = F.binary_cross_entropy(recon, x, reduction="sum")
    return bce - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
