"""Users' gradients of one layer, in the form that is cheapest to weight and to add up exactly.

A user's part of a step's sum is *defined* as w · G with every coordinate rounded towards 0 to the
lattice, where w is the user's weight and G the gradient as the layer's float32 arithmetic gives it.
These are integers of at most 2**47, and their sum is exact, in any order.

Rounding towards 0 only shortens: the charge is computed from a bound on |w · G|².
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparseq.compiled import compiled
from sparseq.training.protocol import Floats

UPWARDS = 1 + 2.0**-20
"""Covers the rounding of a sum of up to 2**30 squares in float64, in any order."""
_AT_ONCE = 1 << 26  # cells of explicit gradients at a time: 256 MiB

Ints = NDArray[np.int64]


class Part(Protocol):
    """One layer's weights, or its bias: one gradient for each of the batch's users."""

    def squares(self) -> Floats:
        """Return squared norms (users,), not below the truth if they are finite."""
        ...

    def add(self, factors: Floats, totals: Ints) -> Floats:
        """Add trunc(factor · gradient), summed over users, to totals; return bounds on squares.

        Args:
            factors: (users,), weight over lattice step; 0 for a gradient that must not count.
            totals: int64, with one entry per coordinate of the part.
        """
        ...


@dataclass
class ExplicitGradient:
    """Explicit gradients.

    Attributes:
        rows: (users, coordinates), float32 or float64, contiguous.
        place: Index of each coordinate in the parameter; None: in this order.
        known: The rows' squares, if they are known already.
    """

    rows: Tensor
    place: NDArray[np.intp] | None = None
    known: Floats | None = None

    def squares(self) -> Floats:
        """Return squared norms."""
        self._squares = row_squares(self.rows) if self.known is None else self.known
        return self._squares

    def add(self, factors: Floats, totals: Ints) -> Floats:
        """Add up: see the protocol."""
        bounds = factors * factors * self._squares * UPWARDS
        bounds[factors == 0.0] = 0.0  # instead of 0 times infinity
        found = add_rows(self.rows, factors)
        totals += found if self.place is None else found[self.place]
        return bounds


@dataclass
class RankOneGradient:
    """A linear layer's weights if each user has one position: g ⊗ a, never written out.

    Attributes:
        g: (users, outputs), of the loss at the layer's output.
        a: (users, inputs).
    """

    g: Tensor
    a: Tensor

    def squares(self) -> Floats:
        """Return squared norms."""
        self._squares = row_squares(self.g) * row_squares(self.a) * UPWARDS
        return self._squares

    def add(self, factors: Floats, totals: Ints) -> Floats:
        """Add up: see the protocol."""
        bounds = factors * factors * self._squares * UPWARDS
        bounds[factors == 0.0] = 0.0
        if self.g.device.type == "cpu" and compiled() is not None:
            g, a = (t.detach().contiguous().numpy() for t in (self.g, self.a))
            compiled().dense.add_outer(g, a, factors, totals.reshape(g.shape[1], -1))
            return bounds
        used = torch.from_numpy(np.flatnonzero(factors != 0.0)).to(self.g.device)
        weights = torch.from_numpy(factors).to(used.device)[used]
        scaled = self.g.detach()[used].double() * weights[:, None]
        inputs = self.a.detach()[used].double()
        size = max(_AT_ONCE // (scaled.shape[1] * inputs.shape[1]), 1)
        for start in range(0, len(used), size):
            some = slice(start, start + size)
            products = scaled[some, :, None] * inputs[some, None, :]
            totals += products.long().sum(0).flatten().cpu().numpy()
        return bounds


@dataclass
class GramGradient:
    """A layer's weights if each user has several positions: the sum of g ⊗ a over them.

    Norms come from the Gram matrices of positions, and gradients are written out only for the sum,
    a few users at a time: for layers so wide that writing them out twice is slower, or does not
    fit into memory.

    Attributes:
        g: (users, positions, outputs).
        a: (users, positions, inputs).
    """

    g: Tensor
    a: Tensor

    def squares(self) -> Floats:
        """Return squared norms, for the weights; the charge uses the ones from `add`."""
        g, a = torch.bmm(self.g, self.g.mT), torch.bmm(self.a, self.a.mT)
        return np.asarray((g * a).sum((1, 2)).clamp(min=0).cpu().double().numpy())

    def add(self, factors: Floats, totals: Ints) -> Floats:
        """Add up: see the protocol."""
        bounds = np.zeros(len(factors))
        size = max(_AT_ONCE // (self.g.shape[2] * self.a.shape[2]), 1)
        for start in range(0, len(factors), size):
            part = slice(start, start + size)
            written = ExplicitGradient(torch.bmm(self.g[part].mT, self.a[part]).flatten(1))
            written.squares()
            bounds[part] = written.add(factors[part], totals)
        return bounds


@dataclass
class EmbeddingGradient:
    """An embedding's rows: each user's gradient at the few rows that the user's records name.

    Attributes:
        owner: (pairs,), index of the user.
        row: (pairs,), row of the table; all pairs differ.
        rows: (pairs, width), the user's gradient at that row.
        users: Number of users.
    """

    owner: NDArray[np.intp]
    row: NDArray[np.intp]
    rows: Tensor
    users: int

    def squares(self) -> Floats:
        """Return squared norms."""
        own = row_squares(self.rows)
        self._squares: Floats = np.bincount(self.owner, own, self.users).astype(float) * UPWARDS
        return self._squares

    def add(self, factors: Floats, totals: Ints) -> Floats:
        """Add up: see the protocol."""
        bounds = factors * factors * self._squares * UPWARDS
        bounds[factors == 0.0] = 0.0
        counted = np.flatnonzero(factors[self.owner] != 0.0)
        if len(counted):
            values = self.rows.detach().cpu().double().numpy()[counted]
            integers = np.trunc(values * factors[self.owner[counted], None]).astype(np.int64)
            np.add.at(totals.reshape(-1, values.shape[1]), self.row[counted], integers)
        return bounds


def row_squares(rows: Tensor) -> Floats:
    """Return each row's sum of squares, in float64.

    Example:
        >>> row_squares(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).tolist()
        [25.0, 0.0]
    """
    if rows.device.type != "cpu" or compiled() is None:
        return np.asarray(rows.detach().double().square().sum(1).cpu().numpy())
    out = np.empty(rows.shape[0])
    compiled().dense.row_squares(rows.detach().contiguous().numpy(), out)
    return out


def add_rows(rows: Tensor, factors: Floats) -> Ints:
    """Return the sum over users of trunc(factor · row); rows whose factor is 0 don't count.

    Args:
        rows: (users, coordinates).
        factors: (users,): no |factor · value| may exceed 2**47, with at most 2**16 users.

    Example:
        >>> add_rows(torch.tensor([[3.0, -4.0], [1.0, 1.0]]), np.array([0.5, 0.0]))
        array([ 1, -2])
    """
    if rows.device.type == "cpu" and compiled() is not None:
        totals = np.zeros(rows.shape[1], np.int64)
        compiled().dense.add_rows(rows.detach().contiguous().numpy(), factors, totals)
        return totals
    used = torch.from_numpy(np.flatnonzero(factors != 0.0)).to(rows.device)
    weights = torch.from_numpy(factors).to(rows.device)[used]
    scaled = rows.detach()[used].double() * weights[:, None]
    return np.asarray(scaled.long().sum(0).cpu().numpy())
