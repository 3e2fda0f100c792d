"""Gradients of PyTorch modules, one a user: `pip install 'sparseq[networks]'`.

engine = Network(module, users, inputs, targets)
gradient = noised_gradient(con, engine, engine.start(), label="step 1", clip=1.0)

A row of a matrix product must not depend on the other rows. With the default kernels of Intel's
library (MKL), which PyTorch uses, it may: a sum is rounded differently where memory is aligned
differently. MKL keeps to one order of additions on every processor if MKL_CBWR is COMPATIBLE, so
this module asks for that before PyTorch's first matrix product, unless the environment has another
value. `row_check.check_rows` tests it for each module all the same.
"""

import os

os.environ.setdefault("MKL_CBWR", "COMPATIBLE")

from sparseq.networks.network.engine import Network
from sparseq.networks.network.tables import NetworkModel, load_network, network_for

__all__ = ["Network", "NetworkModel", "load_network", "network_for"]
