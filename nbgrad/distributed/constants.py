"""How long processes wait for each other, as PyTorch tells it."""

from datetime import timedelta

default_pg_timeout = timedelta(minutes=30)
default_pg_nccl_timeout = None
