"""Layers: the part of each kind in the input, and in the loss's gradient at its output.

For a layer with input a and gradient g at its output, a user's gradient of the weights is the sum
over the user's positions (records, places in an image, words of a text) of g ⊗ a: no second
backward pass is needed. Computing it costs as much as the ordinary gradient of the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from sparseq.compiled import compiled
from sparseq.networks.network.parts import (
    EmbeddingGradient,
    ExplicitGradient,
    GramGradient,
    Part,
    RankOneGradient,
    row_squares,
)

_WIDE = 1 << 18  # weights of a layer from which Gram matrices of its positions are tried

_CACHED = 1 << 20
"""Bytes of patches per block."""
_SMALL = 1 << 18
"""Products of a gradient up to which the BLAS of compiled loops uses no threads of its own."""

Recipe = Callable[..., dict[str, Part]]


def recipe(module: nn.Module) -> Recipe | None:
    """Return the function (module, a, g, users) -> parts by parameter name, or None.

    Its arguments: a is the layer's input, g the gradient at its output, (users · records, …).
    """
    return next((found for kind, found in _RECIPES.items() if type(module) is kind), None)


def _linear(module: nn.Linear, a: Tensor, g: Tensor, users: int) -> dict[str, Part]:
    a, g = _positions(a, users), _positions(g, users)
    return {"weight": _products(g, a), "bias": ExplicitGradient(g.sum(1))}


def _products(g: Tensor, a: Tensor) -> Part:
    """Return the sum over positions of g ⊗ a, (users, positions, …) both."""
    positions, q, p = g.shape[1], g.shape[2], a.shape[2]
    if positions == 1:
        return RankOneGradient(g[:, 0], a[:, 0])
    if q * p >= _WIDE and positions * (q + p) < q * p:
        return GramGradient(g, a)
    return ExplicitGradient(torch.bmm(g.mT, a).flatten(1))


def _positions(t: Tensor, users: int) -> Tensor:
    """Return (users, positions, features) of (users · records, …, features)."""
    return t.reshape(users, -1, t.shape[-1])


def _conv2d(module: nn.Conv2d, a: Tensor, g: Tensor, users: int) -> dict[str, Part]:
    assert not isinstance(module.padding, str)
    if module.groups > 1:
        weight: Part = ExplicitGradient(_group(module, a, g, users))
    else:
        weight = _correlate(module, a, g, users)
    return {
        "weight": weight,
        "bias": ExplicitGradient(g.sum((2, 3)).reshape(users, -1, g.shape[1]).sum(1)),
    }


def _correlate(module: nn.Conv2d, a: Tensor, g: Tensor, users: int) -> ExplicitGradient:
    """Return the weights' gradients, a few users at a time, so that patches stay in the cache."""
    own = _channels_last(g).reshape(users, -1, *g.shape[2:], g.shape[1])
    inputs = module.weight[0].numel()
    written = torch.empty(users, g.shape[1], inputs, dtype=a.dtype, device=a.device)
    squares = np.empty(users)
    place = _place(tuple(module.weight.shape))
    small = written[0].numel() * own[0, ..., 0].numel() <= _SMALL
    if small and a.device.type == "cpu" and compiled() is not None:
        _compile(module, a, own, written, squares)
        return ExplicitGradient(written.flatten(1), place, squares)
    patches, own = _patches(module, a, users), own.reshape(users, -1, g.shape[1])
    size = max(_CACHED // (4 * patches[0].numel()), 1)
    for start in range(0, users, size):
        some = slice(start, start + size)
        seen = patches[some].reshape(-1, own.shape[1], inputs)
        torch.bmm(own[some].mT, seen, out=written[some])
        squares[some] = row_squares(written[some].flatten(1))
    return ExplicitGradient(written.flatten(1), place, squares)


def _compile(
    module: nn.Conv2d, a: Tensor, g: Tensor, written: Tensor, squares: NDArray[np.float64]
) -> None:
    """Fill in the weights' gradients and their squares: see `sparseq.compiled.images.correlate`."""
    (kh, kw), (sh, sw), (dh, dw) = module.kernel_size, module.stride, module.dilation
    ph, pw = int(module.padding[0]), int(module.padding[1])
    channels, height, width = a.shape[1:]
    pixels = _channels_last(a.detach()).reshape(len(g), -1, height, width * channels)
    row = (width + 2 * pw) * channels
    across = [0] if dw == 1 else [dw * channels * right for right in range(kw)]
    places = np.array([dh * row * down + right for down in range(kh) for right in across])
    run = channels * (kw if dw == 1 else 1)
    compiled().images.correlate(
        pixels.contiguous().numpy(),
        g.detach().contiguous().numpy(),
        (ph, pw * channels),
        (sh, sw * channels),
        places,
        run,
        written.numpy(),
        squares,
    )


def _channels_last(t: Tensor) -> Tensor:
    """Return (n, height, width, channels): a view, if the memory layout allows it."""
    return t.permute(0, 2, 3, 1)


def _patches(module: nn.Conv2d, a: Tensor, users: int) -> Tensor:
    """Return the inputs of each output position: (users, records, height, width, …), a view."""
    (kh, kw), (sh, sw), (dh, dw) = module.kernel_size, module.stride, module.dilation
    ph, pw = int(module.padding[0]), int(module.padding[1])
    x = _channels_last(F.pad(a, (pw, pw, ph, ph)))
    view = x.unfold(1, dh * (kh - 1) + 1, sh).unfold(2, dw * (kw - 1) + 1, sw)
    view = view[..., ::dh, ::dw].permute(0, 1, 2, 4, 5, 3)
    return view.unflatten(0, (users, -1))


@lru_cache
def _place(shape: tuple[int, int, int, int]) -> NDArray[np.intp]:
    """Return the indices of weights (outputs, channels, height, width) among those of patches."""
    o, c, h, w = shape
    return np.arange(o * c * h * w).reshape(o, h, w, c).transpose(0, 3, 1, 2).reshape(-1)


def _group(module: nn.Conv2d, a: Tensor, g: Tensor, users: int) -> Tensor:
    """Return (users, weights) of a convolution in groups of channels."""
    n, groups, area = g.shape[0], module.groups, int(np.prod(module.kernel_size))
    rows = F.unfold(a, module.kernel_size, module.dilation, module.padding, module.stride)
    rows = rows.reshape(n * groups, -1, g.shape[2] * g.shape[3])
    own = g.reshape(n * groups, g.shape[1] // groups, -1)
    written = torch.bmm(own, rows.mT).reshape(users, -1, g.shape[1] * (a.shape[1] // groups) * area)
    return written.sum(1)


def _conv1d(module: nn.Conv1d, a: Tensor, g: Tensor, users: int) -> dict[str, Part]:
    assert not isinstance(module.padding, str)
    flat = _FlatConv(
        (1, module.kernel_size[0]),
        (1, module.stride[0]),
        (1, module.dilation[0]),
        (0, int(module.padding[0])),
        module.groups,
        module.weight[:, :, None],
    )
    return _conv2d(flat, a[:, :, None], g[:, :, None], users)


class _FlatConv:
    """A convolution along a line, in the form of one in the plane."""

    def __init__(self, *values: object) -> None:
        names = ("kernel_size", "stride", "dilation", "padding", "groups", "weight")
        self.__dict__.update(zip(names, values, strict=True))


def _embed(module: nn.Embedding, a: Tensor, g: Tensor, users: int) -> dict[str, Part]:
    ids = a.reshape(users, -1).cpu().numpy()
    rows = g.detach().reshape(users, ids.shape[1], -1)
    owner = np.repeat(np.arange(users), ids.shape[1])
    named = ids.reshape(-1)
    if module.padding_idx is not None:
        kept = named != module.padding_idx
        owner, named = owner[kept], named[kept]
        rows = rows.reshape(len(kept), -1)[torch.from_numpy(kept).to(rows.device)]
    keys, pair = np.unique(owner * module.num_embeddings + named, return_inverse=True)
    # one after another in the user's own order, in float64
    sums = torch.zeros(len(keys), rows.shape[-1], dtype=torch.float64, device=rows.device)
    where = torch.from_numpy(pair.reshape(-1)).to(rows.device)
    sums.index_add_(0, where, rows.reshape(len(pair.reshape(-1)), -1).double())
    return {
        "weight": EmbeddingGradient(
            keys // module.num_embeddings, keys % module.num_embeddings, sums, users
        )
    }


def _layer_norm(module: nn.LayerNorm, a: Tensor, g: Tensor, users: int) -> dict[str, Part]:
    dims = tuple(module.normalized_shape)
    return _scale(g, F.layer_norm(a, dims, eps=module.eps), users, len(dims))


def _group_norm(module: nn.GroupNorm, a: Tensor, g: Tensor, users: int) -> dict[str, Part]:
    normed = F.group_norm(a, module.num_groups, eps=module.eps)
    return _scale(g.movedim(1, -1), normed.movedim(1, -1), users, 1)


def _scale(g: Tensor, normed: Tensor, users: int, dims: int) -> dict[str, Part]:
    """Return the parts of a scale and a shift, whose `dims` axes are the last."""
    size = int(np.prod(g.shape[g.dim() - dims :]))
    weight = (g * normed).reshape(users, -1, size).sum(1)
    return {
        "weight": ExplicitGradient(weight),
        "bias": ExplicitGradient(g.reshape(users, -1, size).sum(1)),
    }


_RECIPES: dict[type[nn.Module], Recipe] = {
    nn.Linear: _linear,
    nn.Conv2d: _conv2d,
    nn.Conv1d: _conv1d,
    nn.Embedding: _embed,
    nn.LayerNorm: _layer_norm,
    nn.GroupNorm: _group_norm,
}


def has_recipe(module: nn.Module) -> bool:
    """Return True if a layer has a recipe with its options."""
    if recipe(module) is None:
        return False
    if isinstance(module, nn.Conv1d | nn.Conv2d):
        return module.padding_mode == "zeros" and not isinstance(module.padding, str)
    if isinstance(module, nn.Embedding):
        return module.max_norm is None and not module.scale_grad_by_freq and not module.sparse
    return True
