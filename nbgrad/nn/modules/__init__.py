"""The modules of `torch.nn`. This package only re-exports."""

from nbgrad.nn.modules import _constants
from nbgrad.nn.modules.activation import *  # noqa: F403
from nbgrad.nn.modules.adaptive import *  # noqa: F403
from nbgrad.nn.modules.attention import *  # noqa: F403
from nbgrad.nn.modules.batchnorm import *  # noqa: F403
from nbgrad.nn.modules.channelshuffle import *  # noqa: F403
from nbgrad.nn.modules.container import *  # noqa: F403
from nbgrad.nn.modules.conv import *  # noqa: F403
from nbgrad.nn.modules.distance import *  # noqa: F403
from nbgrad.nn.modules.dropout import *  # noqa: F403
from nbgrad.nn.modules.flatten import *  # noqa: F403
from nbgrad.nn.modules.fold import *  # noqa: F403
from nbgrad.nn.modules.instancenorm import *  # noqa: F403
from nbgrad.nn.modules.lazy import *  # noqa: F403
from nbgrad.nn.modules.linear import *  # noqa: F403
from nbgrad.nn.modules.linear_cross_entropy_options import *  # noqa: F403
from nbgrad.nn.modules.loss import *  # noqa: F403
from nbgrad.nn.modules.module import Module as Module
from nbgrad.nn.modules.normalization import *  # noqa: F403
from nbgrad.nn.modules.padding import *  # noqa: F403
from nbgrad.nn.modules.pixelshuffle import *  # noqa: F403
from nbgrad.nn.modules.pooling import *  # noqa: F403
from nbgrad.nn.modules.rnn import *  # noqa: F403
from nbgrad.nn.modules.sparse import *  # noqa: F403
from nbgrad.nn.modules.transformer import *  # noqa: F403
from nbgrad.nn.modules.upsampling import *  # noqa: F403

_constants.give(globals())
globals()["__all__"] = [name for name in dir() if name[:1].isupper()]
