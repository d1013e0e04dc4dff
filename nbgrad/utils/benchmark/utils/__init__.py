"""PyTorch's `torch.utils.benchmark.utils`: what was measured, what measures, and tables of it."""
