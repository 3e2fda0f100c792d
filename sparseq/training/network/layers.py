"""What each kind of layer makes of its input and of the loss's gradient at its output.

For a layer with input a and gradient g at its output, a user's gradient of the weights is the sum
over the user's positions (records, places in an image, words of a text) of g ⊗ a: no second
backward pass is needed. Writing it out costs as much as the ordinary gradient of the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from sparseq.training.network.parts import Looked, Part, RankOne, Repeated, Written, row_squares

_WIDE = 1 << 18  # weights of a layer from which Gram matrices of its positions are tried

_CACHED = 1 << 20
"""Bytes of patches at a time."""
_LONG_RUN = 32
"""Numbers side by side in memory from which copying them is not helped by blocks."""

Recipe = Callable[..., dict[str, Part]]


def recipe(module: nn.Module) -> Recipe | None:
    """Return the function (module, a, g, users) -> parts by parameter name; None if there is none.

    Args of it: a is the layer's input and g the gradient at its output, (users · records, …).
    """
    return next((found for kind, found in _RECIPES.items() if type(module) is kind), None)


def _linear(module: nn.Linear, a: Tensor, g: Tensor, users: int) -> dict[str, Part]:
    a, g = _positions(a, users), _positions(g, users)
    return {"weight": _products(g, a), "bias": Written(g.sum(1))}


def _products(g: Tensor, a: Tensor) -> Part:
    """Return the sum over positions of g ⊗ a, (users, positions, …) both."""
    positions, q, p = g.shape[1], g.shape[2], a.shape[2]
    if positions == 1:
        return RankOne(g[:, 0], a[:, 0])
    if q * p >= _WIDE and positions * (q + p) < q * p:
        return Repeated(g, a)
    return Written(torch.bmm(g.mT, a).flatten(1))


def _positions(t: Tensor, users: int) -> Tensor:
    """Return (users, positions, features) of (users · records, …, features)."""
    return t.reshape(users, -1, t.shape[-1])


def _conv2d(module: nn.Conv2d, a: Tensor, g: Tensor, users: int) -> dict[str, Part]:
    assert not isinstance(module.padding, str)
    if module.groups > 1:
        weight: Part = Written(_grouped(module, a, g, users))
    else:
        weight = _correlated(module, a, g, users)
    return {"weight": weight, "bias": Written(g.sum((2, 3)).reshape(users, -1, g.shape[1]).sum(1))}


def _correlated(module: nn.Conv2d, a: Tensor, g: Tensor, users: int) -> Written:
    """Return weights' gradients: a few users at a time, so that patches stay in the cache."""
    view, place = _patches(module, a)
    outputs = g.shape[1]
    inputs, records = len(place) // outputs, len(a) // users
    own = _channels_last(g)
    written = torch.empty(users, outputs, inputs, device=a.device)
    squares = np.empty(users)
    size = max(_CACHED // (4 * inputs * g[0, 0].numel() * records), 1)
    for start in range(0, users, size):
        some = slice(start * records, (start + size) * records)
        k = own[some].reshape(-1, records * own.shape[1] * own.shape[2], outputs)
        part = written[start : start + size]
        torch.bmm(k.mT, view[some].reshape(len(k), -1, inputs), out=part)
        squares[start : start + size] = row_squares(part.flatten(1))
    return Written(written.flatten(1), place, squares)


def _channels_last(t: Tensor) -> Tensor:
    """Return (n, height, width, channels): a view, where memory is laid out so."""
    return t.permute(0, 2, 3, 1)


def _patches(module: nn.Conv2d, a: Tensor) -> tuple[Tensor, NDArray[np.intp]]:
    """Return what each place of the output sees, (n, height, width, …), and its order.

    Channels come last, so that long runs of memory are copied. Where they are short and the kernel
    is a few strides wide, blocks of s x s pixels become channels first, for longer runs.
    """
    (kh, kw), (sh, sw), (dh, dw) = module.kernel_size, module.stride, module.dilation
    ph, pw = int(module.padding[0]), int(module.padding[1])
    height, width = a.shape[2] + 2 * ph, a.shape[3] + 2 * pw
    short = kw * a.shape[1] < _LONG_RUN and sh * sw > 1
    blocks = short and dh == dw == 1 and kh % sh == kw % sw == 0
    down, right = (-height % sh, -width % sw) if blocks else (0, 0)
    around = (pw, pw + right, ph, ph + down)
    x = _channels_last(F.pad(a, around) if any(around) else a)
    place = _place(tuple(module.weight.shape), (sh, sw) if blocks else (1, 1))
    if blocks:
        x = _blocks(x, sh, sw)
        kh, kw, sh, sw = kh // sh, kw // sw, 1, 1
    view = x.unfold(1, dh * (kh - 1) + 1, sh).unfold(2, dw * (kw - 1) + 1, sw)
    out = ((height - dh * (module.kernel_size[0] - 1) - 1) // module.stride[0] + 1,
           (width - dw * (module.kernel_size[1] - 1) - 1) // module.stride[1] + 1)  # fmt: skip
    view = view[:, : out[0], : out[1], :, ::dh, ::dw]
    return view.permute(0, 1, 2, 4, 5, 3), place


def _blocks(x: Tensor, sh: int, sw: int) -> Tensor:
    """Return (n, height / sh, width / sw, sh · sw · channels) of (n, height, width, channels)."""
    n, h, w, c = x.shape
    out = x.new_empty(n, h // sh, w // sw, sh, sw, c)
    for down in range(sh):
        for right in range(sw):
            out[:, :, :, down, right] = x[:, down::sh, right::sw]
    return out.flatten(3)


@lru_cache
def _place(shape: tuple[int, int, int, int], block: tuple[int, int]) -> NDArray[np.intp]:
    """Return where weights (outputs, channels, height, width) are among those of patches."""
    (o, c, h, w), (sh, sw) = shape, block
    order = np.arange(o * c * h * w).reshape(o, h // sh, w // sw, sh, sw, c)
    return order.transpose(0, 5, 1, 3, 2, 4).reshape(-1)


def _grouped(module: nn.Conv2d, a: Tensor, g: Tensor, users: int) -> Tensor:
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
        (1, module.kernel_size[0]), (1, module.stride[0]), (1, module.dilation[0]),
        (0, int(module.padding[0])), module.groups, module.weight[:, :, None],
    )  # fmt: skip
    return _conv2d(flat, a[:, :, None], g[:, :, None], users)


class _FlatConv:
    """A convolution along a line, as one in the plane."""

    def __init__(self, *values: object) -> None:
        names = ("kernel_size", "stride", "dilation", "padding", "groups", "weight")
        self.__dict__.update(zip(names, values, strict=True))


def _embedding(module: nn.Embedding, a: Tensor, g: Tensor, users: int) -> dict[str, Part]:
    ids = a.reshape(users, -1).cpu().numpy()
    rows = g.detach().reshape(users, ids.shape[1], -1)
    owner = np.repeat(np.arange(users), ids.shape[1])
    named = ids.reshape(-1)
    if module.padding_idx is not None:
        kept = named != module.padding_idx
        owner, named = owner[kept], named[kept]
        rows = rows.reshape(len(kept), -1)[torch.from_numpy(kept).to(rows.device)]
    keys, pair = np.unique(owner * module.num_embeddings + named, return_inverse=True)
    # one after the other in the user's own order, in float64
    sums = torch.zeros(len(keys), rows.shape[-1], dtype=torch.float64, device=rows.device)
    where = torch.from_numpy(pair.reshape(-1)).to(rows.device)
    sums.index_add_(0, where, rows.reshape(len(pair.reshape(-1)), -1).double())
    return {
        "weight": Looked(keys // module.num_embeddings, keys % module.num_embeddings, sums, users)
    }


def _layer_norm(module: nn.LayerNorm, a: Tensor, g: Tensor, users: int) -> dict[str, Part]:
    dims = tuple(module.normalized_shape)
    return _scaled(g, F.layer_norm(a, dims, eps=module.eps), users, len(dims))


def _group_norm(module: nn.GroupNorm, a: Tensor, g: Tensor, users: int) -> dict[str, Part]:
    normed = F.group_norm(a, module.num_groups, eps=module.eps)
    return _scaled(g.movedim(1, -1), normed.movedim(1, -1), users, 1)


def _scaled(g: Tensor, normed: Tensor, users: int, dims: int) -> dict[str, Part]:
    """Return the parts of a scale and a shift, whose `dims` axes are the last."""
    size = int(np.prod(g.shape[g.dim() - dims :]))
    weight = (g * normed).reshape(users, -1, size).sum(1)
    return {"weight": Written(weight), "bias": Written(g.reshape(users, -1, size).sum(1))}


_RECIPES: dict[type[nn.Module], Recipe] = {
    nn.Linear: _linear,
    nn.Conv2d: _conv2d,
    nn.Conv1d: _conv1d,
    nn.Embedding: _embedding,
    nn.LayerNorm: _layer_norm,
    nn.GroupNorm: _group_norm,
}


def supported(module: nn.Module) -> bool:
    """Tell whether a layer has a recipe, with the options that it has been given."""
    if recipe(module) is None:
        return False
    if isinstance(module, nn.Conv1d | nn.Conv2d):
        return module.padding_mode == "zeros" and not isinstance(module.padding, str)
    if isinstance(module, nn.Embedding):
        return module.max_norm is None and not module.scale_grad_by_freq and not module.sparse
    return True
