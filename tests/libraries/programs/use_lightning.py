import logging
import warnings

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")

logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)

pl.seed_everything(0)


class L(pl.LightningModule):
    def __init__(s):
        super().__init__()
        s.l = torch.nn.Linear(4, 1)

    def training_step(s, b, i):
        x, y = b
        loss = torch.nn.functional.mse_loss(s.l(x), y)
        s.log("loss", loss)
        return loss

    def configure_optimizers(s):
        return torch.optim.SGD(s.parameters(), lr=0.1)


x = torch.randn(32, 4)
ds = TensorDataset(x, x.sum(1, keepdim=True))
m = L()
t = pl.Trainer(
    max_epochs=2,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    accelerator="cpu",
)
t.fit(m, DataLoader(ds, batch_size=8))
print(m.l.weight, t.callback_metrics)
