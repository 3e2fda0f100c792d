"""Gradients of PyTorch modules, one a user: `pip install 'sparseq[networks]'`.

engine = Network(module, users, inputs, targets)
gradient = noised_gradient(con, engine, engine.start(), label="step 1", clip=1.0)

A row of a matrix product may not hang on which other rows lie beside it. On some processors it does
with the fastest kernels of Intel's library (MKL), which torch uses; so, where the environment says
nothing else, it is told before its first call to take those that keep rows apart. Whether they are
kept apart is checked for each module all the same, see `checks.check_rows`.
"""

import os

os.environ.setdefault("MKL_CBWR", "AVX2")

from sparseq.training.network.engine import Network
from sparseq.training.network.tables import NetworkModel, load_network, network_for

__all__ = ["Network", "NetworkModel", "load_network", "network_for"]
