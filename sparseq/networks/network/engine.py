"""Gradients of a PyTorch module in one pass: one forward, one backward for activations only.

A hook keeps each layer's input; one backward pass gives the loss's gradient at each layer's
output; from the two come every user's norm and, once weights are known, the weighted sum, from the
same tensors (`layers`, `parts`). Modules with other layers than those known there go through
`torch.func.vmap` instead, which is general and slower.

**Why the sum is exact**, and a user's part of it depends on nobody else (points 1 and 2 of
`sparseq.training.protocol`). A user's gradient is *defined* as the float32 numbers that the module
gives; rounded towards 0 to the lattice they are integers, whose sum is exact (`parts`). It remains
to show that these float32 numbers depend on the user's own records only, to the last bit. Every
batch has the same shape, filled up with empty records, and every operation treats all rows in the
same way: then a row's numbers do not depend on the other rows or on its place. That is a property
of the libraries underneath, and of the module, so it is tested: `check_rows` tries it on the same
shapes, to the bit, with other users' records changed to extremes, NaN included, and rows moved. A
module that mixes its rows is refused. If a library rounds a row differently at another place,
smaller batches are tried, and the first size that keeps users apart is used: the choice depends on
the module, the libraries and the processor, and on no record.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from sparseq.base.errors import DataError, ParameterError
from sparseq.base.sql_text import first_line
from sparseq.engine.reduction import NORM_LIMIT, Index, Runs
from sparseq.networks.network.one_pass import OnePass, PerExamplePass, one_pass_fits
from sparseq.networks.network.parts import UPWARDS, Part
from sparseq.networks.network.row_check import (
    RowCheck,
    batch_shapes,
    cbwr,
    check_layers,
    check_rows,
)
from sparseq.question.plan import DENSE_NORM_STEPS
from sparseq.training.failures import despite_failures
from sparseq.training.identity import code_of, digest_of
from sparseq.training.protocol import Floats, Pull, WeightedSum, saturate

Loss = Callable[[Tensor, Tensor], Tensor]
T = TypeVar("T")
_LONGEST = (float(NORM_LIMIT) / 4) ** 0.5 * DENSE_NORM_STEPS
"""Norm in lattice steps from which a gradient exceeds every budget, and is not added."""
_SHARDS = 2
"""Number of micro-batches of a batch: one thread for each, with one PyTorch thread."""


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_SHARDS)


def _single_threaded(work: Callable[[Any], Any], item: Any) -> Any:
    """Run it with one PyTorch thread, whatever the setting: with more it may round differently."""
    torch.set_num_threads(1)
    return work(item)


@dataclass(frozen=True)
class PaddedBatch:
    """Some users with the same number of records each, filled up with empty ones.

    Attributes:
        users: int32, ascending.
        rows: (places, records): indices of the data's rows; -1 for none.
        size: Number of users computed at a time; the number of places is a multiple of `size`.
    """

    users: Index
    rows: NDArray[np.int64]
    size: int

    def shards(self) -> list[NDArray[np.int64]]:
        """Return rows, `size` users at a time."""
        return np.split(self.rows, len(self.rows) // self.size)


class _Shard:
    """One forward and backward pass, and the work that remains once weights are known."""

    def __init__(self, parts: list[tuple[slice, Part]], coordinates: int) -> None:
        self.parts, self.coordinates = parts, coordinates
        with np.errstate(all="ignore"):
            norms = np.sqrt(np.sum([part.squares() for _, part in parts], axis=0) * UPWARDS)
        self.bad = ~np.isfinite(norms)
        norms[self.bad] = 0.0
        self.norms = norms

    def pull(self, factors: Floats) -> WeightedSum:
        """Return the sum, each user's gradient times its factor: weight over lattice step."""
        factors = np.where(self.bad, 0.0, factors)
        with np.errstate(all="ignore"):
            over = ~(factors * self.norms < _LONGEST)
        factors[over] = 0.0
        sums = np.zeros(self.coordinates, np.int64)
        bounds = np.zeros(len(factors))
        for where, part in self.parts:
            bounds += part.add(factors, sums[where])
        bounds *= UPWARDS / float(DENSE_NORM_STEPS) ** 2
        bounds[over] = np.inf
        return WeightedSum(saturate(bounds), sums)


class _Shards:
    """Shards of the same places, each with records of some places: none, or several."""

    def __init__(self, shards: list[_Shard], places: int, coordinates: int) -> None:
        self.shards, self.coordinates = shards, coordinates
        self.norms = np.zeros(places)
        for shard in shards:
            self.norms = self.norms + shard.norms

    def pull(self, factors: Floats) -> WeightedSum:
        """Return the sum over all shards."""
        squares = np.zeros(len(self.norms), np.int64)
        sums = np.zeros(self.coordinates, np.int64)
        for shard in self.shards:
            pulled = shard.pull(factors)
            squares = np.maximum(squares, pulled.squares)  # 0 for users that are not in a shard
            sums += pulled.sums
        return WeightedSum(squares, sums)


class Network:
    """An engine for PyTorch modules.

    A user with a record on which the module fails contributes nothing from then on; `failed_users`
    holds these users. No error depends on a record.

    Args:
        module: The model, called with a batch of inputs; it is copied. Dropout does nothing here.
        users: The store's index of each record's user.
        inputs, targets: Tensors or arrays, one entry per record.
        loss: (outputs, targets) -> one loss per record; cross-entropy by default. A user's loss is
            the sum over the user's records.
        micro: Largest number of records that are computed at a time: see `check_rows`. The
            attribute of this name is the number in use.
        device: Device; the data is moved to it batch by batch.
        method: "one-pass", "vmap", or "auto": the first if the module allows it.

    Raises:
        ParameterError: The module has layers that mix users, or mixes them in its own code.
        DataError: The arrays have different lengths.

    Example:
        >>> x, y = torch.eye(4), torch.tensor([0, 1, 0, 1])
        >>> engine = Network(nn.Linear(4, 2), np.arange(4), x, y, micro=4)
        >>> (batch,) = engine.batches()
        >>> norms, pull = engine.query(np.zeros(10), batch)
        >>> norms.round(3).tolist()
        [1.0, 1.0, 1.0, 1.0]
        >>> (pull(np.ones(4), 2.0**-30).sums * 2.0**-30)[:4].tolist()
        [-0.5, 0.5, -0.5, 0.5]
    """

    def __init__(
        self,
        module: nn.Module,
        users: Any,
        inputs: Any,
        targets: Any,
        *,
        loss: Loss | None = None,
        micro: int = 256,
        device: str = "cpu",
        method: str = "auto",
    ) -> None:
        check_layers(module)
        self.module = copy.deepcopy(module).to(device).eval()
        if any(isinstance(m, nn.Conv2d) for m in self.module.modules()):
            self.module.to(memory_format=torch.channels_last)
        for part in self.module.modules():
            if getattr(part, "inplace", False) is True:
                part.inplace = False
        trained = {n: p for n, p in self.module.named_parameters() if p.requires_grad}
        self._names, self._params = list(trained), list(trained.values())
        self._shapes = [tuple(p.shape) for p in self._params]
        self._loss = loss or (lambda o, t: F.cross_entropy(o, t, reduction="none"))
        self._inputs, self._targets = _tensor(inputs), _tensor(targets)
        users = np.asarray(users)
        if not len(users) == len(self._inputs) == len(self._targets):
            raise DataError(
                f"{len(users)} users, {len(self._inputs)} inputs, {len(self._targets)} targets",
                "give one of each for every record",
            )
        self.device = torch.device(device)
        if micro < 1:
            raise ParameterError(f"micro is {micro}; it must be at least 1")
        self._whose = users.astype(np.int32)
        self.failed_users: set[int] = set()
        self._order = np.argsort(users, kind="stable")
        self._runs = Runs.of(users[self._order].astype(np.int32))
        if method not in ("auto", "one-pass", "vmap"):
            raise ParameterError(f"method is {method!r}", 'it is "auto", "one-pass" or "vmap"')
        self._try_sample()
        fits = method != "vmap" and one_pass_fits(self.module, self.sample(1))
        if method == "one-pass" and not fits:
            raise ParameterError(
                "the module has layers, or uses of layers, that one pass has no recipe for",
                'use method="vmap", which is general and slower',
            )
        self._pass = (OnePass if fits else PerExamplePass)(self.module, self._names, self._loss)
        self.micro = self._safe_batch_size(micro)
        self._batches = tuple(self.of(self._runs.owners))

    def _safe_batch_size(self, wanted: int) -> int:
        """Return the largest batch, up to `wanted` records, that `check_rows` passes.

        Raises:
            ParameterError: The module mixes users, or every size fails.
        """
        smaller = [1 << k for k in range(wanted.bit_length(), 2, -1) if 1 << k < wanted]
        for micro in (wanted, *smaller):
            found = self._run_threads(lambda shape: check_rows(self, *shape), batch_shapes(micro))
            if RowCheck.MIXED in found:
                raise ParameterError(
                    "one user's records change another user's gradient in this module",
                    "use layers that treat each record alone",
                )
            if RowCheck.ROUNDED not in found:
                return micro
        raise ParameterError(
            "PyTorch's matrix library rounds a user's gradient differently next to other users, in "
            f"batches of {wanted} records and in all smaller ones (MKL_CBWR={cbwr()})",
            "set MKL_CBWR=COMPATIBLE in the environment before Python starts, or use micro=1",
        )

    @property
    def coordinates(self) -> int:
        """d, the number of parameters."""
        return sum(int(np.prod(shape)) for shape in self._shapes)

    def facts(self) -> dict[str, str]:
        """Return the public facts that a run depends on besides the data (see `Identity`)."""
        layers = {type(m) for m in self.module.modules()}
        own = sorted((t for t in layers if not t.__module__.startswith("torch.")), key=repr)
        fixed = [t.detach().cpu().double().numpy().tobytes() for t in self._other_tensors()]
        return {
            "module": repr(self.module),
            "code": code_of(*own, self._loss),
            "fixed numbers": digest_of(*fixed),
        }

    def _other_tensors(self) -> list[Tensor]:
        """Return the tensors that are not trained."""
        parameters = [p for p in self.module.parameters() if not p.requires_grad]
        return [*parameters, *self.module.buffers()]

    def start(self) -> Floats:
        """Return the module's own parameters, as `PrivateGD.fit` takes them: they are public."""
        return np.concatenate([p.detach().cpu().double().numpy().ravel() for p in self._params])

    def load(self, params: Floats) -> nn.Module:
        """Return the module, at these parameters."""
        flat = torch.from_numpy(np.asarray(params, np.float64)).float().to(self.device)
        with torch.no_grad():
            for p, one in zip(
                self._params, flat.split([int(np.prod(s)) for s in self._shapes]), strict=True
            ):
                p.copy_(one.view(p.shape))
        return self.module

    def batches(self) -> Iterable[PaddedBatch]:
        """Return all records, `micro` at a time."""
        return self._batches

    def of(self, users: Index) -> Iterable[PaddedBatch]:
        """Return batches of these users (ascending); each has the same number of records per user,
        up to a power of two."""
        runs = self._runs.only(users)
        lengths = runs.stop - runs.first
        width = np.left_shift(1, np.ceil(np.log2(np.maximum(lengths, 1))).astype(np.int64))
        for records in np.unique(width).tolist():
            chosen = np.flatnonzero(width == records)
            size = max(self.micro // records, 1)
            for start in range(0, len(chosen), _SHARDS * size):
                some = chosen[start : start + _SHARDS * size]
                rows = np.full((-(-len(some) // size) * size, records), -1, np.int64)
                places = np.arange(records)
                there = places < lengths[some, None]
                rows[: len(some)][there] = self._order[(runs.first[some, None] + places)[there]]
                if self.failed_users:
                    rows[: len(some)][np.isin(runs.owners[some], list(self.failed_users))] = -1
                yield PaddedBatch(runs.owners[some], rows, size)

    def query(self, params: Floats, batch: PaddedBatch) -> tuple[Floats, Pull]:
        """Return norms and the pull: see the protocol."""
        self.load(params)
        shards = self._run_threads(self._shard, batch.shards())
        norms = np.concatenate([shard.norms for shard in shards])

        def pull(weights: Floats, step: float) -> WeightedSum:
            factors = np.zeros(len(norms))
            factors[: len(weights)] = weights / step
            cut = np.split(factors, len(shards))
            pulled = self._run_threads(
                lambda s: s[0].pull(s[1]), list(zip(shards, cut, strict=True))
            )
            squares = np.concatenate([p.squares for p in pulled])
            return WeightedSum(squares[: len(weights)], np.sum([p.sums for p in pulled], axis=0))

        return norms[: len(batch.users)], pull

    def right(self, params: Floats, batch: PaddedBatch) -> Floats:
        """Return the share of each user's records that the model classifies correctly."""
        return self._mean(params, batch, lambda o, y: (o.argmax(1) == y).double())

    def losses(self, params: Floats, batch: PaddedBatch) -> Floats:
        """Return each user's loss, the mean over the records; it may be infinite or NaN."""
        return self._mean(params, batch, lambda o, y: self._loss(o, y).double())

    def _mean(self, params: Floats, batch: PaddedBatch, value: Loss) -> Floats:
        """Return the mean of a value over each user's records."""
        module = self.load(params)

        def means(rows: NDArray[np.int64]) -> Floats:
            x, y, there = self._of(rows)
            with torch.no_grad():
                values = torch.where(there, value(module(x), y), 0.0).view(len(rows), -1)
            counted = there.view(len(rows), -1).sum(1).clamp(min=1)
            return np.asarray((values.sum(1) / counted).cpu().numpy())

        def shard(rows: NDArray[np.int64]) -> Floats:
            means_of_users: Floats = np.zeros(len(rows))
            for part in self._despite_failures(means, rows):
                means_of_users = means_of_users + part  # 0 for users that are not in it
            return means_of_users

        return np.concatenate(self._run_threads(shard, batch.shards()))[: len(batch.users)]

    def _shard(self, rows: NDArray[np.int64]) -> _Shard | _Shards:
        def computed(rows: NDArray[np.int64]) -> _Shard:
            return _Shard(self.parts(*self._of(rows), len(rows)), self.coordinates)

        parts = self._despite_failures(computed, rows)
        return parts[0] if len(parts) == 1 else _Shards(parts, len(rows), self.coordinates)

    def _despite_failures(
        self, work: Callable[[NDArray[np.int64]], T], rows: NDArray[np.int64]
    ) -> list[T]:
        """Do the work for all users without failures; the others have no records from now on."""
        done = despite_failures(work, rows)
        for place in done.failed:
            record = rows[place][rows[place] >= 0][0]
            self.failed_users.add(int(self._whose[record]))
        rows[done.failed] = -1
        return done.parts

    def _run_threads(self, work: Callable[[Any], Any], items: list[Any]) -> list[Any]:
        """Apply a function to each of a few items, on one thread each.

        A single item gets a thread as well: with other threads PyTorch may round differently.
        """
        if self.device.type != "cpu":
            return [work(item) for item in items]
        return list(_pool().map(partial(_single_threaded, work), items))

    def parts(self, x: Tensor, y: Tensor, there: Tensor, users: int) -> list[tuple[slice, Part]]:
        """Return every parameter's part, and its place in the gradient."""
        by_name = self._pass(x, y, there, users)
        stops = np.cumsum([int(np.prod(s)) for s in self._shapes])
        return [
            (slice(int(stop) - int(np.prod(shape)), int(stop)), by_name[name])
            for name, shape, stop in zip(self._names, self._shapes, stops, strict=True)
        ]

    def _of(self, which: NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor]:
        """Return inputs, targets and a mask of the records that exist."""
        rows = torch.from_numpy(which.reshape(-1))
        there = rows >= 0
        if bool(there.all()):
            x, y = self._inputs[rows], self._targets[rows]
        else:
            rows = rows.clamp(min=0)
            x, y = self._inputs[rows], self._targets[rows]
            x[~there], y[~there] = 0, 0
        return x.to(self.device), y.to(self.device), there.to(self.device)

    def _try_sample(self) -> None:
        """Call the module with an invented record, so that its error may be shown."""
        x, _ = self.sample(1)
        try:
            with torch.no_grad():
                self.module(x)
        except Exception as error:
            raise ParameterError(
                f"the module fails on one record of zeros, of shape {tuple(x.shape)}: "
                f"{first_line(error)}",
                "its first layer takes as many numbers as a record has",
            ) from None

    def sample(self, rows: int) -> tuple[Tensor, Tensor]:
        """Return records of the data's shape that are not from the data."""
        x = _zeros(rows, self._inputs)
        y = torch.zeros(rows, *self._targets.shape[1:], dtype=self._targets.dtype)
        return x.to(self.device), y.to(self.device)


def _zeros(rows: int, like: Tensor) -> Tensor:
    """Return zeros with the data's memory layout."""
    zeros = torch.zeros(rows, *like.shape[1:], dtype=like.dtype)
    channels_last = like.dim() == 4 and like.is_contiguous(memory_format=torch.channels_last)
    return zeros.contiguous(memory_format=torch.channels_last) if channels_last else zeros


def _tensor(values: Any) -> Tensor:
    """Return a tensor: float32, or integers unchanged."""
    tensor = (
        values if isinstance(values, Tensor) else torch.from_numpy(np.ascontiguousarray(values))
    )
    return tensor.float() if tensor.is_floating_point() else tensor
