"""Checks that one user's records do not change another user's gradient, to the bit."""

from __future__ import annotations

import os
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sparseq.base.errors import ParameterError

_MIXING = (nn.modules.batchnorm._BatchNorm,)


def check_layers(module: nn.Module) -> None:
    """Refuse layers that mix examples, by name.

    Raises:
        ParameterError: There is such a layer, or nothing can be trained.
    """
    for name, layer in module.named_modules():
        if isinstance(layer, _MIXING):
            raise ParameterError(
                f"layer {name!r} is a {type(layer).__name__}, which mixes users: "
                "everybody's gradient would depend on everybody",
                "use nn.GroupNorm or nn.LayerNorm instead",
            )
    if not any(p.requires_grad for p in module.parameters()):
        raise ParameterError("the module has no parameters that require a gradient")


class RowCheck(Enum):
    """The outcome of a check.

    Attributes:
        APART: The numbers of a user are the same, to the bit.
        ROUNDED: They differ by rounding: a library treats rows differently.
        MIXED: They differ by more: the module mixes users.
    """

    APART = "apart"
    ROUNDED = "rounded"
    MIXED = "mixed"


_ROUNDING = 1e-3
"""The largest relative difference that counts as rounding."""


def cbwr() -> str:
    """Return the environment's setting of MKL's reproducibility."""
    return os.environ.get("MKL_CBWR", "not set")


def batch_shapes(micro: int) -> list[tuple[int, int]]:
    """Return the shapes that a batch can have: numbers of users, and of records of each.

    They are all possible shapes, whatever the data need: the number of a user's records is private,
    and a refusal of a module is public. A user with more than `micro` records is alone in a batch.

    >>> batch_shapes(5)
    [(5, 1), (2, 2), (1, 4)]
    """
    widths = [1 << k for k in range(micro.bit_length())]
    return [(max(micro // records, 1), records) for records in widths]


def check_rows(engine: Any, users: int, records: int) -> RowCheck:
    """Check whether users' numbers depend on their places in a batch, or on the other users.

    The numbers of some users are compared, to the bit, between a batch of made-up records and one
    in which these users are at other places, next to other users whose records are extreme.

    Args:
        engine: A `Network`.
        users, records: The shape to try.
    """
    generator = np.random.default_rng(0)
    x, y = engine.sample(users * records)
    _fill(x, _words(engine.module), generator)
    x, y = x.view(users, records, *x.shape[1:]), y.view(users, records, *y.shape[1:])
    order = generator.permutation(users)
    other = x[torch.from_numpy(order).to(x.device)].clone()
    kept = np.arange(0, users, 6)
    if other.is_floating_point():
        for k, extreme in enumerate((0.0, 1e30, float("nan"), -1e-30, float("inf"))):
            other[1 + k :: 6] = extreme
    else:
        changed = torch.ones(users, dtype=torch.bool, device=x.device)
        changed[::6] = False
        other[changed] = _words(engine.module) - 1 - other[changed]
    here, there = order[kept], kept
    if users == 1:
        return RowCheck.APART
    return _compared(_numbers(engine, x, y, here), _numbers(engine, other, y, there))


def _fill(x: Tensor, words: int, generator: np.random.Generator) -> None:
    if x.is_floating_point():
        x.copy_(torch.from_numpy(generator.normal(size=tuple(x.shape))))
    else:
        x.copy_(torch.from_numpy(generator.integers(0, words, tuple(x.shape))))


def _words(module: nn.Module) -> int:
    """Return a number of different integers that the module surely knows."""
    return min(
        (m.num_embeddings for m in module.modules() if isinstance(m, nn.Embedding)), default=2
    )


def _numbers(engine: Any, x: Tensor, y: Tensor, users: Any) -> list[np.ndarray[Any, Any]]:
    """Return norms and sums of each of some users alone."""
    flat, targets = x.flatten(0, 1), y.flatten(0, 1)
    everything = torch.ones(len(flat), dtype=torch.bool, device=flat.device)
    numbers = []
    for where, part in engine.parts(flat, targets, everything, len(x)):
        numbers.append(part.squares()[users])
        for user in users[:8]:
            factors = np.zeros(len(x))
            factors[user] = 2.0**30
            sums = np.zeros(where.stop - where.start, np.int64)
            part.add(factors, sums)
            numbers.append(sums)
    return numbers


def _compared(left: list[Any], right: list[Any]) -> RowCheck:
    """Compare two lists of numbers.

    >>> _compared([np.array([1.0, 2.0])], [np.array([1.0, 2.0 + 1e-7])])
    <RowCheck.ROUNDED: 'rounded'>
    >>> _compared([np.array([1.0])], [np.array([np.nan])])
    <RowCheck.MIXED: 'mixed'>
    """
    pairs = list(zip(left, right, strict=True))
    if all(np.array_equal(a, b, equal_nan=True) for a, b in pairs):
        return RowCheck.APART
    close = (
        np.allclose(a, b, rtol=0, atol=_ROUNDING * np.max(np.abs(a), initial=0), equal_nan=True)
        for a, b in pairs
    )
    return RowCheck.ROUNDED if all(close) else RowCheck.MIXED
