"""Checks of a module, so that a user's gradient is the user's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sparseq.base.errors import ParameterError

_MIXING = (nn.modules.batchnorm._BatchNorm,)


def check_layers(module: nn.Module) -> None:
    """Refuse layers that mix examples, by name.

    Raises:
        ParameterError: There is one, or nothing can be trained.
    """
    for name, layer in module.named_modules():
        if isinstance(layer, _MIXING):
            raise ParameterError(
                f"layer {name!r} is a {type(layer).__name__}, which mixes users: "
                "everybody's gradient would depend on everybody",
                "take nn.GroupNorm or nn.LayerNorm in its place",
            )
    if not any(p.requires_grad for p in module.parameters()):
        raise ParameterError("the module has no parameters that require a gradient")


def check_rows(engine: Any, users: int, records: int) -> None:
    """Refuse a module, or a library, for which one user's records change another's numbers.

    What is added up of some users is compared, to the bit, between a batch of made-up records and
    one in which these users lie elsewhere, beside others that are extreme, or other words.

    Args:
        engine: A `Network`.
        users, records: The shape that is tried.

    Raises:
        ParameterError: The numbers are not the same.
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
        return
    if not _same(_numbers(engine, x, y, here), _numbers(engine, other, y, there)):
        raise ParameterError(
            "one user's records change another user's gradient in this module",
            "use layers that treat each record alone; if all do, try another `micro`",
        )


def _fill(x: Tensor, words: int, generator: np.random.Generator) -> None:
    if x.is_floating_point():
        x.copy_(torch.from_numpy(generator.normal(size=tuple(x.shape))))
    else:
        x.copy_(torch.from_numpy(generator.integers(0, words, tuple(x.shape))))


def _words(module: nn.Module) -> int:
    """Return how many different integers the module knows for sure."""
    return min(
        (m.num_embeddings for m in module.modules() if isinstance(m, nn.Embedding)), default=2
    )


def _numbers(engine: Any, x: Tensor, y: Tensor, users: Any) -> list[np.ndarray[Any, Any]]:
    """Return norms and sums of each of some users alone."""
    flat, targets = x.flatten(0, 1), y.flatten(0, 1)
    everything = torch.ones(len(flat), dtype=torch.bool, device=flat.device)
    found = []
    for where, part in engine.parts(flat, targets, everything, len(x)):
        found.append(part.squares()[users])
        for user in users[:8]:
            factors = np.zeros(len(x))
            factors[user] = 2.0**30
            sums = np.zeros(where.stop - where.start, np.int64)
            part.add(factors, sums)
            found.append(sums)
    return found


def _same(left: list[Any], right: list[Any]) -> bool:
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(left, right, strict=True))
