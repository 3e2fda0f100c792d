"""Gradients of a PyTorch module in one pass: one forward, one backward for activations only.

A hook keeps each layer's input; one backward pass gives the loss's gradient at each layer's
output; from the two come every user's norm and, once weights are known, the weighted sum, from the
same tensors (`layers`, `parts`). Modules with other layers than those known there go through
`torch.func.vmap` instead, which is general and slower.

**Why the sum is exact**, and what a user adds to it depends on nobody else (points 1 and 2 of
`sparseq.training.protocol`). A user's gradient is *defined* as the float32 numbers that the module
gives; rounded towards 0 to the lattice they are integers, whose sum is exact (`parts`). What is
left to show is that these float32 numbers depend on the user's own records only, to the last bit.
Every batch has the same shape, filled up with empty records, and every operation treats rows alike:
then a row's numbers are the same beside any other rows and at any place. That is a property of the
libraries beneath, and of the module, so it is not believed: `check_rows` tries it on the very
shapes that are used, to the bit, with other users' records changed to extremes, NaN included, and
rows moved; a module that mixes its rows, or a library that treats them differently, is refused.
"""

from __future__ import annotations

import copy
import threading
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
from sparseq.engine.contributions import NORM_LIMIT, Index, Runs
from sparseq.engine.protocol import first_line
from sparseq.sql.plan import DENSE_NORM_STEPS
from sparseq.training.identity import code_of, digest_of
from sparseq.training.network.layers import has_recipe, join_steps, recipe
from sparseq.training.network.parts import UPWARDS, ExplicitGradient, Part
from sparseq.training.protocol import Floats, Pull, WeightedSum, saturate
from sparseq.training.records import despite_failures

# -- one batch through the module: every parameter's part, by recipe or by `torch.func.vmap` -------


class _HookState(threading.local):
    """The state that hooks keep of the batch that their thread is at."""

    def __init__(self) -> None:
        self.inputs: dict[str, Tensor] = {}
        self.outputs: dict[str, Tensor] = {}
        self.versions: dict[str, tuple[int, int]] = {}

    def clear(self) -> None:
        """Forget the batch."""
        for kept in (self.inputs, self.outputs, self.versions):
            kept.clear()


class OnePass:
    """One forward and one backward that stops at activations.

    Args:
        module: Whose trainable parameters all belong to layers with a recipe, each used once.
        names: The parameters, in order.
        loss: (outputs, targets) -> one loss a record.
    """

    def __init__(self, module: nn.Module, names: list[str], loss: Any) -> None:
        self.module, self.loss = join_steps(module), loss
        self.layers = {
            name: layer
            for name, layer in self.module.named_modules()
            if any(p.requires_grad for p in layer.parameters(recurse=False))
        }
        self.names = set(names)
        for p in module.parameters():
            p.requires_grad_(False)
        self._kept = _HookState()
        for name, layer in self.layers.items():
            layer.register_forward_hook(self._hook(name))

    def _hook(self, name: str) -> Any:
        def hook(_: nn.Module, inputs: tuple[Tensor, ...], out: Tensor) -> Tensor:
            kept = self._kept
            if name in kept.inputs:
                raise ParameterError(f"layer {name!r} is used twice", 'use method="vmap"')
            if not out.requires_grad:
                out = out.detach().requires_grad_()
            kept.inputs[name], kept.outputs[name] = inputs[0].detach(), out
            kept.versions[name] = inputs[0]._version, out._version
            return out

        return hook

    def __call__(self, x: Tensor, y: Tensor, there: Tensor, users: int) -> dict[str, Part]:
        """Return parts by parameter name.

        Args:
            x, y: (users · records, …).
            there: Which of the records are.
            users: How many.
        """
        kept = self._kept
        try:
            losses = one_each(self.loss(self.module(x), y), y)
            total = (losses if bool(there.all()) else losses[there]).sum()
            self._check()
            gradients = torch.autograd.grad(total, list(kept.outputs.values()))
            by_name: dict[str, Part] = {}
            for (name, a), g in zip(kept.inputs.items(), gradients, strict=True):
                layer = self.layers[name]
                make = recipe(layer)
                assert make is not None
                prefix = f"{name}." if name else ""
                parts = make(layer, a, g, users)
                by_name |= {prefix + k: v for k, v in parts.items() if prefix + k in self.names}
            return by_name
        finally:
            kept.clear()

    def _check(self) -> None:
        """Refuse a module that writes over what the gradient is made of."""
        kept = self._kept
        for name, out in kept.outputs.items():
            if (kept.inputs[name]._version, out._version) != kept.versions[name]:
                raise ParameterError(
                    f"the input or the output of layer {name!r} is changed in place",
                    'write relu instead of relu_, and inplace=False, or use method="vmap"',
                )


def one_each(losses: Tensor, y: Tensor) -> Tensor:
    """Return the losses, if there is one a record.

    Raises:
        ParameterError: There is not; a mean over the batch would scale everybody's gradient.
    """
    if losses.shape != y.shape[:1]:
        raise ParameterError(
            f"the loss of {len(y)} records has the shape {tuple(losses.shape)}",
            'it must return one number a record: reduction="none"',
        )
    return losses


def one_pass_fits(module: nn.Module, sample: tuple[Tensor, Tensor]) -> bool:
    """Tell whether every trainable parameter is in one layer that has a recipe and is used once."""
    layers = [m for m in module.modules() if any(p.requires_grad for p in m.parameters(False))]
    owners = [p for m in layers for p in m.parameters(False) if p.requires_grad]
    if not all(has_recipe(m) for m in layers) or len({id(p) for p in owners}) < len(owners):
        return False
    calls: dict[int, int] = {}
    shapes: list[bool] = []

    def count(layer: nn.Module, inputs: tuple[Any, ...], out: Any) -> None:
        calls[id(layer)] = calls.get(id(layer), 0) + 1
        shapes.append(
            len(inputs) == 1
            and isinstance(inputs[0], Tensor)
            and isinstance(out, Tensor)
            and len(inputs[0]) == len(out) == len(sample[0])
        )

    hooks = [layer.register_forward_hook(count) for layer in layers]
    try:
        with torch.no_grad():
            module(sample[0])
    finally:
        for hook in hooks:
            hook.remove()
    return all(calls.get(id(m)) == 1 for m in layers) and all(shapes)


class PerExamplePass:
    """`torch.func.vmap` over users: for any module that treats its records alone.

    Args: as `OnePass`.
    """

    def __init__(self, module: nn.Module, names: list[str], loss: Any) -> None:
        self.module, self.names, self.loss = module, names, loss
        self._own = threading.local()  # `functional_call` changes the module while it lasts
        self._gradient = torch.func.vmap(
            torch.func.grad(self._one), in_dims=(None, 0, 0, 0), randomness="error"
        )

    def _one(self, params: dict[str, Tensor], x: Tensor, y: Tensor, there: Tensor) -> Tensor:
        outputs = torch.func.functional_call(self._own.module, params, (x,))
        losses = one_each(self.loss(outputs, y), y)
        return torch.where(there, losses, 0.0).sum()

    def __call__(self, x: Tensor, y: Tensor, there: Tensor, users: int) -> dict[str, Part]:
        """Return parts by parameter name: see `OnePass`."""
        if not hasattr(self._own, "module"):
            self._own.module = copy.deepcopy(self.module)
        params = {n: p.detach() for n, p in self.module.named_parameters() if n in self.names}
        x, y, there = (t.reshape(users, -1, *t.shape[1:]) for t in (x, y, there))
        gradients = self._gradient(params, x, y, there)
        return {
            n: ExplicitGradient(g.detach().reshape(users, -1).contiguous())
            for n, g in gradients.items()
        }


# -- checks of a module, so that a user's gradient is the user's own -------------------------------

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


def _same(left: list[Any], right: list[Any]) -> bool:
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(left, right, strict=True))


# -- gradients of a PyTorch module in one pass -----------------------------------------------------

Loss = Callable[[Tensor, Tensor], Tensor]
T = TypeVar("T")
_LONGEST = (float(NORM_LIMIT) / 4) ** 0.5 * DENSE_NORM_STEPS
"""In lattice steps: what is longer costs more than any budget, and is not added."""
_SHARDS = 2
"""Number of micro-batches of a batch: as many threads, with one thread of PyTorch's each."""


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_SHARDS)


def _alone(work: Callable[[Any], Any], item: Any) -> Any:
    """Do it with one thread of PyTorch's, whatever has been set since: more may round otherwise."""
    torch.set_num_threads(1)
    return work(item)


@dataclass(frozen=True)
class PaddedBatch:
    """Some users with equally many records, filled up with empty ones.

    Attributes:
        users: int32, ascending.
        rows: (places, records): which rows of the data; -1 where there is none.
        size: How many users are computed at a time; places are a multiple of it.
    """

    users: Index
    rows: NDArray[np.int64]
    size: int

    def shards(self) -> list[NDArray[np.int64]]:
        """Return rows, `size` users at a time."""
        return np.split(self.rows, len(self.rows) // self.size)


class _Shard:
    """One forward and backward, and what is left to do once weights are known."""

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
    """Shards of the same places, each with records of some of them: none, or several."""

    def __init__(self, shards: list[_Shard], places: int, coordinates: int) -> None:
        self.shards, self.coordinates = shards, coordinates
        self.norms = np.zeros(places)
        for shard in shards:
            self.norms = self.norms + shard.norms

    def pull(self, factors: Floats) -> WeightedSum:
        """Return the sum over all of them."""
        squares = np.zeros(len(self.norms), np.int64)
        sums = np.zeros(self.coordinates, np.int64)
        for shard in self.shards:
            pulled = shard.pull(factors)
            squares = np.maximum(squares, pulled.squares)  # who is not in a shard has 0 there
            sums += pulled.sums
        return WeightedSum(squares, sums)


class Network:
    """An engine for PyTorch modules.

    Whoever has a record that the module fails on counts for nothing from then on; `failed_users`
    says who they are. No error depends on a record.

    Args:
        module: The model, called with a batch of inputs; it is copied. Dropout does nothing here.
        users: The store's index of each record's user.
        inputs, targets: Tensors or arrays of as many records.
        loss: (outputs, targets) -> one loss a record; cross-entropy by default. A user's loss is
            the sum over the user's records.
        micro: Records that are computed at a time.
        device: Where; the data is moved there batch by batch.
        method: "one-pass", "vmap", or "auto": the first where the module allows it.

    Raises:
        ParameterError: The module has layers that mix users, or mixes them in its own code.
        DataError: The arrays are not of one length.

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
        self._runs, self._micro = Runs.of(users[self._order].astype(np.int32)), micro
        self._batches = tuple(self.of(self._runs.owners))
        if method not in ("auto", "one-pass", "vmap"):
            raise ParameterError(f"method is {method!r}", 'it is "auto", "one-pass" or "vmap"')
        self._try_out()
        fits = method != "vmap" and one_pass_fits(self.module, self.sample(1))
        if method == "one-pass" and not fits:
            raise ParameterError(
                "the module has layers, or uses of layers, that one pass has no recipe for",
                'use method="vmap", which is general and slower',
            )
        self._pass = (OnePass if fits else PerExamplePass)(self.module, self._names, self._loss)
        self._at_once(lambda shape: check_rows(self, *shape), self._shapes_tried())

    def _shapes_tried(self) -> list[tuple[int, int]]:
        """Return the shapes that a batch can have: how many users, and records of each.

        All of them, whatever shapes there are: how many records somebody has is no public fact, and
        whether a module is refused is. Beyond `micro` records a user is alone in a batch.
        """
        widths = [1 << k for k in range(self._micro.bit_length())]
        return [(max(self._micro // records, 1), records) for records in widths]

    @property
    def coordinates(self) -> int:
        """d, how many parameters there are."""
        return sum(int(np.prod(shape)) for shape in self._shapes)

    def facts(self) -> dict[str, str]:
        """Return what a run depends on besides the data: public (see `Identity`)."""
        layers = {type(m) for m in self.module.modules()}
        own = sorted((t for t in layers if not t.__module__.startswith("torch.")), key=repr)
        fixed = [t.detach().cpu().double().numpy().tobytes() for t in self._other_tensors()]
        return {
            "module": repr(self.module),
            "code": code_of(*own, self._loss),
            "fixed numbers": digest_of(*fixed),
        }

    def _other_tensors(self) -> list[Tensor]:
        """Return what is not trained."""
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
        """Return batches of these users (ascending): equally many records, up to a power of two."""
        runs = self._runs.only(users)
        lengths = runs.stop - runs.first
        width = np.left_shift(1, np.ceil(np.log2(np.maximum(lengths, 1))).astype(np.int64))
        for records in np.unique(width).tolist():
            chosen = np.flatnonzero(width == records)
            size = max(self._micro // records, 1)
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
        shards = self._at_once(self._shard, batch.shards())
        norms = np.concatenate([shard.norms for shard in shards])

        def pull(weights: Floats, step: float) -> WeightedSum:
            factors = np.zeros(len(norms))
            factors[: len(weights)] = weights / step
            cut = np.split(factors, len(shards))
            pulled = self._at_once(lambda s: s[0].pull(s[1]), list(zip(shards, cut, strict=True)))
            squares = np.concatenate([p.squares for p in pulled])
            return WeightedSum(squares[: len(weights)], np.sum([p.sums for p in pulled], axis=0))

        return norms[: len(batch.users)], pull

    def right(self, params: Floats, batch: PaddedBatch) -> Floats:
        """Return which share of each user's records the model classifies as they are."""
        return self._mean(params, batch, lambda o, y: (o.argmax(1) == y).double())

    def losses(self, params: Floats, batch: PaddedBatch) -> Floats:
        """Return each user's loss, the mean of its records'; it may be infinite or NaN."""
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
                means_of_users = means_of_users + part  # who is not in it has 0 there
            return means_of_users

        return np.concatenate(self._at_once(shard, batch.shards()))[: len(batch.users)]

    def _shard(self, rows: NDArray[np.int64]) -> _Shard | _Shards:
        def computed(rows: NDArray[np.int64]) -> _Shard:
            return _Shard(self.parts(*self._of(rows), len(rows)), self.coordinates)

        parts = self._despite_failures(computed, rows)
        return parts[0] if len(parts) == 1 else _Shards(parts, len(rows), self.coordinates)

    def _despite_failures(
        self, work: Callable[[NDArray[np.int64]], T], rows: NDArray[np.int64]
    ) -> list[T]:
        """Do it for everybody for whom it can be done; the others have no records from now on."""
        done = despite_failures(work, rows)
        for place in done.failed:
            record = rows[place][rows[place] >= 0][0]
            self.failed_users.add(int(self._whose[record]))
        rows[done.failed] = -1
        return done.parts

    def _at_once(self, work: Callable[[Any], Any], items: list[Any]) -> list[Any]:
        """Do something to each of a few things, on threads of their own.

        Also where it is one thing: with other threads PyTorch may round otherwise.
        """
        if self.device.type != "cpu":
            return [work(item) for item in items]
        return list(_pool().map(partial(_alone, work), items))

    def parts(self, x: Tensor, y: Tensor, there: Tensor, users: int) -> list[tuple[slice, Part]]:
        """Return every parameter's part, and where it lies in the gradient."""
        by_name = self._pass(x, y, there, users)
        stops = np.cumsum([int(np.prod(s)) for s in self._shapes])
        return [
            (slice(int(stop) - int(np.prod(shape)), int(stop)), by_name[name])
            for name, shape, stop in zip(self._names, self._shapes, stops, strict=True)
        ]

    def _of(self, which: NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor]:
        """Return inputs, targets and which of them are there."""
        rows = torch.from_numpy(which.reshape(-1))
        there = rows >= 0
        if bool(there.all()):
            x, y = self._inputs[rows], self._targets[rows]
        else:
            rows = rows.clamp(min=0)
            x, y = self._inputs[rows], self._targets[rows]
            x[~there], y[~there] = 0, 0
        return x.to(self.device), y.to(self.device), there.to(self.device)

    def _try_out(self) -> None:
        """Call the module with a record that is nobody's, so that what it says can be shown."""
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
        """Return records of the data's shape that are not of the data."""
        x = _zeros(rows, self._inputs)
        y = torch.zeros(rows, *self._targets.shape[1:], dtype=self._targets.dtype)
        return x.to(self.device), y.to(self.device)


def _zeros(rows: int, like: Tensor) -> Tensor:
    """Return zeros, laid out in memory as the data is."""
    zeros = torch.zeros(rows, *like.shape[1:], dtype=like.dtype)
    channels_last = like.dim() == 4 and like.is_contiguous(memory_format=torch.channels_last)
    return zeros.contiguous(memory_format=torch.channels_last) if channels_last else zeros


def _tensor(values: Any) -> Tensor:
    """Return a tensor: float32, or integers as they are."""
    tensor = (
        values if isinstance(values, Tensor) else torch.from_numpy(np.ascontiguousarray(values))
    )
    return tensor.float() if tensor.is_floating_point() else tensor
