"""Gradients of PyTorch modules, one a user: `pip install 'sparseq[torch]'`.

engine = Network(module, users, inputs, targets)
gradient = noised_gradient(con, engine, engine.start(), label="step 1", clip=1.0)
"""

from sparseq.training.network.engine import Network

__all__ = ["Network"]
