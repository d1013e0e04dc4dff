"""Batches of a dataset of tensors, and files of many tensors."""

import io

from .common import PerLibrary


class Batches(PerLibrary):
    """100,000 samples of 64 numbers in batches of 32, of which the first 500 are timed."""

    def prepare(self) -> None:
        data = self.T.utils.data
        dataset = data.TensorDataset(self.T.randn(100_000, 64), self.T.arange(100_000))
        self.in_order = data.DataLoader(dataset, batch_size=32)
        self.shuffled = data.DataLoader(dataset, batch_size=32, shuffle=True)
        self.time_in_order("")

    def time_in_order(self, lib: str) -> None:
        for _ in zip(range(500), self.in_order, strict=False):
            pass

    def time_shuffled(self, lib: str) -> None:
        for _ in zip(range(500), self.shuffled, strict=False):
            pass


class Files(PerLibrary):
    """200 tensors of 1,000 elements."""

    def prepare(self) -> None:
        self.tensors = {str(k): self.T.randn(1000) for k in range(200)}
        file = io.BytesIO()
        self.T.save(self.tensors, file)
        self.saved = file.getvalue()

    def time_save(self, lib: str) -> None:
        self.T.save(self.tensors, io.BytesIO())

    def time_load(self, lib: str) -> None:
        self.T.load(io.BytesIO(self.saved))
