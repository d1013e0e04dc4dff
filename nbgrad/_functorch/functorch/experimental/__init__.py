"""PyTorch's `functorch.experimental`. This package only re-exports."""

from nbgrad._functorch.apis import chunk_vmap as chunk_vmap
from nbgrad.func import functionalize as functionalize
from nbgrad.func import hessian as hessian
from nbgrad.func import jacfwd as jacfwd
from nbgrad.func import jvp as jvp
from nbgrad.func import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
