"""`torch.distributed.algorithms._checkpoint`: modules that compute their activations again."""
