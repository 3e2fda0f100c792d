"""Gradients of PyTorch modules, one a user: `pip install 'sparseq[networks]'`.

engine = Network(module, users, inputs, targets)
gradient = noised_gradient(con, engine, engine.start(), label="step 1", clip=1.0)
"""

from sparseq.training.network.engine import Network
from sparseq.training.network.tables import NetworkModel, load_network, network_for

__all__ = ["Network", "NetworkModel", "load_network", "network_for"]
