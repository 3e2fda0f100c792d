"""ReLU and max-pooling as one step: the same numbers, without the tensors in between.

The largest of a window's ReLUs is the larger of the window's maximum and 0. One loop finds it and
its index in the window; the gradient goes to that index, and to none if 0 is the largest. PyTorch
does it in two steps with three tensors, which cost a small network more than its convolutions.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sparseq.compiled import compiled

_WINDOW = 254  # largest number of places in a window

Pair = tuple[int, int]


def join_steps(module: nn.Module) -> nn.Module:
    """Return a copy with the same parameters, in which steps are joined if that is faster."""
    shared = {id(t): t for t in (*module.parameters(), *module.buffers())}
    own = copy.deepcopy(module, shared)
    if compiled() is not None:
        for chain in own.modules():
            if type(chain) is nn.Sequential:
                chain.__class__ = _Chain
    return own


class _Chain(nn.Sequential):  # type: ignore[misc]
    """Layers one after another; a ReLU next to a pooling is one step with it."""

    def forward(self, x: Any) -> Any:
        layers = list(self)
        while layers:
            layer = layers.pop(0)
            pool = _pool_of(layer, layers[0]) if layers else None
            if pool is not None and x.dim() == 4 and x.device.type == "cpu":
                layers.pop(0)
                x = _MaxPool.apply(x, _pair(pool.kernel_size), _pair(pool.stride))
            else:
                x = layer(x)
        return x


def _pool_of(left: nn.Module, right: nn.Module) -> nn.MaxPool2d | None:
    """Return the pooling of the two, if the other is a ReLU: their order makes no difference."""
    pool = next((m for m in (left, right) if type(m) is nn.MaxPool2d), None)
    if pool is None or not any(type(m) is nn.ReLU for m in (left, right)):
        return None
    if pool.ceil_mode or pool.return_indices or np.prod(_pair(pool.kernel_size)) > _WINDOW:
        return None
    if _pair(pool.padding) != (0, 0) or _pair(pool.dilation) != (1, 1):
        return None
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return None if any(getattr(m, kind) for m in (left, right) for kind in hooks) else pool


def _pair(size: Any) -> Pair:
    return (size, size) if isinstance(size, int) else tuple(size)


class _MaxPool(torch.autograd.Function):  # type: ignore[misc]
    """The largest of each window and of 0."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, kernel: Pair, stride: Pair) -> Tensor:
        height, width = ((z.shape[2 + i] - kernel[i]) // stride[i] + 1 for i in (0, 1))
        out = z.new_empty(len(z), height, width, z.shape[1])
        won = np.empty((len(z), height, width * z.shape[1]), np.uint8)
        compiled().images.pool(_rows(z), z.shape[1], kernel, stride, out.flatten(2).numpy(), won)
        ctx.shape, ctx.kernel, ctx.stride, ctx.won = z.shape, kernel, stride, won
        return out.permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, *g: Tensor) -> tuple[Tensor, None, None]:
        n, channels, height, width = ctx.shape
        gz = g[0].new_empty(n, height, width, channels)
        to = gz.flatten(2).numpy()
        compiled().images.unpool(_rows(g[0]), ctx.won, channels, ctx.kernel, ctx.stride, to)
        return gz.permute(0, 3, 1, 2), None, None


def _rows(t: Tensor) -> Any:
    """Return (n, height, width · channels), contiguous."""
    return t.detach().permute(0, 2, 3, 1).contiguous().flatten(2).numpy()
