"""Gradients of PyTorch modules, against a loop over users by `torch.autograd` alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sampled import one_in

from checks.stores import IN_OR_OUT

torch = pytest.importorskip("torch", reason="pip install 'sparseq[networks]'")
from torch import Tensor, nn  # noqa: E402

import sparseq  # noqa: E402
from sparseq.base.errors import DataError, ParameterError  # noqa: E402
from sparseq.engine.reduction import NORM_LIMIT  # noqa: E402
from sparseq.ledger._duckdb.curator_log import CuratorLog  # noqa: E402
from sparseq.ledger.pots import Pot  # noqa: E402
from sparseq.networks.network import Network  # noqa: E402
from sparseq.networks.network import parts as parts_module  # noqa: E402
from sparseq.networks.network.one_pass import OnePass, PerExamplePass  # noqa: E402
from sparseq.question.plan import DENSE_NORM_STEPS  # noqa: E402
from sparseq.training import PrivateGD, noised_gradient  # noqa: E402

STEP = 2.0**-34
Shape = tuple[int, ...]


class Words(nn.Module):
    """Words, attended to by linear layers, and a class."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 8, padding_idx=0)
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.norm, self.out = nn.LayerNorm(8), nn.Linear(8, classes)

    def forward(self, x: Tensor) -> Tensor:
        e = self.words(x)
        seen = torch.softmax(self.q(e) @ self.k(e).mT / 8**0.5, -1) @ self.v(e)
        return self.out(self.norm(e + seen).mean(1))


class Attention(nn.Module):
    """PyTorch's own attention, whose weights no layer's forward shows."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.out = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.attention(x, x, x, need_weights=False)[0].mean(1))


class Tied(nn.Module):
    """A layer that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.twice, self.out = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.twice(torch.tanh(self.twice(x)))))


def conv(*layers: nn.Module, flat: int) -> nn.Module:
    return nn.Sequential(*layers, nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(flat, 3))


MODULES: dict[str, tuple[Any, Shape, type]] = {
    "linear": (lambda: nn.Linear(7, 3), (7,), OnePass),
    "no bias": (
        lambda: nn.Sequential(nn.Linear(7, 5, bias=False), nn.Tanh(), nn.Linear(5, 3)),
        (7,),
        OnePass,
    ),
    "one channel": (lambda: conv(nn.Conv2d(1, 4, 4, 2, padding=1), flat=100), (1, 10, 10), OnePass),
    "stride that does not divide": (
        lambda: conv(nn.Conv2d(2, 4, 3, 2), flat=64),
        (2, 10, 10),
        OnePass,
    ),
    "odd size and blocks": (lambda: conv(nn.Conv2d(3, 4, 4, 2), flat=48), (3, 9, 11), OnePass),
    "dilated": (
        lambda: conv(nn.Conv2d(2, 4, 3, dilation=2, padding=2), flat=256),
        (2, 8, 8),
        OnePass,
    ),
    "groups": (
        lambda: conv(nn.Conv2d(4, 6, 3, groups=2, stride=(2, 1)), flat=72),
        (4, 6, 8),
        OnePass,
    ),
    "line": (lambda: conv(nn.Conv1d(2, 4, 3, stride=2, padding=1), flat=20), (2, 9), OnePass),
    "norms": (
        lambda: conv(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.LayerNorm([4, 4, 4]), flat=64),
        (2, 6, 6),
        OnePass,
    ),
    "pooled": (
        lambda: conv(
            nn.Conv2d(1, 4, 4, 2, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2, 1),
            nn.Conv2d(4, 6, 2),
            nn.MaxPool2d((2, 3), (1, 2)),
            flat=48,
        ),
        (1, 14, 14),
        OnePass,
    ),
    "words": (Words, (5,), OnePass),
    "attention": (Attention, (4, 8), PerExamplePass),
    "tied": (Tied, (6,), PerExamplePass),
    "padding by name": (
        lambda: conv(nn.Conv2d(2, 4, 3, padding="same"), flat=144),
        (2, 6, 6),
        PerExamplePass,
    ),
}


def made(name: str, users: np.ndarray, seed: int = 0, **options: Any) -> Network:
    _, shape, _ = MODULES[name]
    generator = torch.Generator().manual_seed(seed)
    if name == "words":
        x = torch.randint(0, 11, (len(users), *shape), generator=generator)
    else:
        x = torch.randn(len(users), *shape, generator=generator)
    y = torch.randint(0, 3, (len(users),), generator=generator)
    return Network(copy(name), users, x, y, **options)


def copy(name: str) -> nn.Module:
    torch.manual_seed(0)
    return MODULES[name][0]()


def by_loop(name: str, engine: Network, user: int, users: np.ndarray) -> np.ndarray:
    """One user's gradient at the module's own parameters, in float64, by autograd alone."""
    module = copy(name).double()
    rows = torch.from_numpy(np.flatnonzero(users == user))
    x, y = engine._inputs[rows], engine._targets[rows]
    loss = nn.functional.cross_entropy(
        module(x.double() if x.is_floating_point() else x), y, reduction="sum"
    )
    found = torch.autograd.grad(loss, list(module.parameters()))
    return np.concatenate([g.numpy().ravel() for g in found])


def pulled(engine: Network, params: np.ndarray, weight: Any) -> tuple[Any, Any, Any, Any]:
    """Users, norms, squares and the sum over all batches; weight(norms) are the weights."""
    out: list[list[Any]] = [[], [], []]
    sums = np.zeros(engine.coordinates, np.int64)
    for batch in engine.batches():
        norms, pull = engine.query(params, batch)
        part = pull(weight(norms), STEP)
        for kept, one in zip(out, (batch.users, norms, part.squares), strict=True):
            kept.append(one)
        sums += part.sums
    order = np.argsort(np.concatenate(out[0]))
    return *(np.concatenate(kept)[order] for kept in out), sums


@pytest.mark.parametrize("records", [1, 3], ids=["one record", "up to three"])
@pytest.mark.parametrize("name", one_in(2, MODULES))
def test_norms_and_sums_are_those_of_a_loop(name: str, records: int) -> None:
    """To 1e-6, for every kind of layer; and by the pass that is meant for it."""
    rng = np.random.default_rng(1)
    users = rng.permutation(np.repeat(np.arange(11), rng.integers(1, records + 1, 11)))
    engine = made(name, users, micro=8)
    assert type(engine._pass) is MODULES[name][2]
    params = engine.start()
    who, norms, squares, sums = pulled(engine, params, lambda n: np.minimum(1, 0.5 / n))
    assert who.tolist() == list(range(11))
    loop = np.array([by_loop(name, engine, i, users) for i in range(11)])
    true = np.linalg.norm(loop, axis=1)
    assert norms == pytest.approx(true, rel=1e-6)
    weighted = loop * np.minimum(1, 0.5 / norms)[:, None]
    assert np.abs(sums * STEP - weighted.sum(0)).max() <= 1e-6 * np.linalg.norm(weighted)
    charged = np.sqrt(squares.astype(float)) * STEP * DENSE_NORM_STEPS
    assert charged == pytest.approx(np.linalg.norm(weighted, axis=1), rel=1e-4)


@pytest.mark.parametrize("name", ["one channel", "words", "norms"])
def test_vmap_says_the_same(name: str) -> None:
    users = np.arange(9) // 2
    one, other = made(name, users), made(name, users, method="vmap")
    assert isinstance(other._pass, PerExamplePass)
    left, right = (pulled(e, one.start(), lambda n: np.ones_like(n)) for e in (one, other))
    assert left[1] == pytest.approx(right[1], rel=1e-5)
    assert left[3] * STEP == pytest.approx(right[3] * STEP, abs=1e-5)


@pytest.mark.parametrize("name", ["pooled", "words", "linear", "groups", "attention"])
def test_what_a_user_adds_depends_on_nobody_else(name: str) -> None:
    """To the bit: alone, among others, elsewhere, and beside a user who has gone."""
    users = np.arange(40)
    engine = made(name, users, micro=16)
    params = engine.start()
    alone = np.zeros(engine.coordinates, np.int64)
    for user in (0, 7, 23, 39):
        own = np.zeros(engine.coordinates, np.int64)
        for batch in engine.batches():
            _, pull = engine.query(params, batch)
            own += pull((batch.users == user).astype(float), STEP).sums
        without = Network(
            copy(name),
            users[users != user],
            engine._inputs[users != user],
            engine._targets[users != user],
            micro=16,
        )
        both = pulled(engine, params, np.ones_like)[3]
        rest = pulled(without, params, np.ones_like)[3]
        assert np.array_equal(both - rest, own)
        alone += own
    assert alone.any()


@pytest.mark.parametrize("name", ["one channel", "words"])
def test_some_users_alone_are_as_they_are_among_all(name: str) -> None:
    """As private SGD asks for them; their losses and how often they are right, too."""
    users = np.repeat(np.arange(12), [1, 2, 3, 1, 1, 5, 1, 1, 2, 1, 1, 1])
    engine = made(name, users, micro=8)
    params = engine.start()
    some = np.array([1, 2, 5, 6, 11], np.int32)
    found, everything = {}, {}
    for kept, batches in ((found, engine.of(some)), (everything, engine.batches())):
        for batch in batches:
            _, pull = engine.query(params, batch)
            losses, right = engine.losses(params, batch), engine.right(params, batch)
            for i, user in enumerate(batch.users.tolist()):
                own = pull((batch.users == user).astype(float), STEP)
                kept[user] = (own.sums.tolist(), own.squares[i], losses[i], right[i])
    assert found == {user: everything[user] for user in some.tolist()}
    module = copy(name)
    for user, (_, _, loss, right) in everything.items():
        rows = torch.from_numpy(np.flatnonzero(users == user))
        out = module(engine._inputs[rows])
        assert right == (out.argmax(1) == engine._targets[rows]).double().mean()
        true = nn.functional.cross_entropy(out, engine._targets[rows])
        assert loss == pytest.approx(float(true), rel=1e-5)


@pytest.mark.parametrize("name", ["one channel", "words", "linear"])
def test_squares_are_never_below_what_is_added(name: str) -> None:
    users = np.repeat(np.arange(6), [1, 1, 2, 3, 5, 1])
    engine = made(name, users, micro=4)
    params = engine.start() * 3
    rng = np.random.default_rng(2)
    for batch in engine.batches():
        norms, pull = engine.query(params, batch)
        for i in range(len(batch.users)):
            weights = np.zeros(len(norms))
            weights[i] = rng.random()
            one = pull(weights, STEP)
            exact = sum(int(v) ** 2 for v in one.sums)
            assert int(one.squares[i]) * DENSE_NORM_STEPS**2 >= exact > 0
            assert one.squares[np.arange(len(norms)) != i].sum() == 0


@pytest.mark.parametrize("extreme", [np.nan, np.inf, 1e30, 1e-42, 0.0])
def test_hostile_records_cost_nobody_else_anything(extreme: float) -> None:
    """Not finite: counted as nothing. Huge or tiny: within C, and charged."""
    users = np.arange(12)
    engine = made("pooled", users, micro=8)
    params = engine.start()
    before = pulled(engine, params, lambda n: np.minimum(1, 1 / n))
    own = [pulled(engine, params, lambda n: np.zeros_like(n))[3]]
    engine._inputs[5] = extreme
    after = pulled(engine, params, lambda n: np.where(n > 0, np.minimum(1, 1 / n), 0.0))
    others = users != 5
    assert np.array_equal(before[1][others], after[1][others])
    assert np.array_equal(before[2][others], after[2][others])
    assert not own[0].any()
    assert np.isfinite(after[1]).all()
    assert after[2][5] * (STEP * DENSE_NORM_STEPS) ** 2 <= 1.001
    if not np.isfinite(extreme):
        assert after[1][5] == after[2][5] == 0


def test_a_weight_too_large_saturates_and_adds_nothing() -> None:
    engine = made("linear", np.arange(3))
    (batch,) = engine.batches()
    _, pull = engine.query(engine.start(), batch)
    found = pull(np.array([0.0, 1e30, 0.0]), STEP)
    assert found.squares.tolist() == [0, NORM_LIMIT, 0]
    assert not found.sums.any()


def test_wide_layers_are_not_written_out_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gram norms, and the sum a few users at a time, say what writing out says."""
    from sparseq.networks.network import layers

    plain = made("words", np.arange(9))
    monkeypatch.setattr(layers, "_WIDE", 1)
    monkeypatch.setattr(parts_module, "_AT_ONCE", 128)
    gram = Network(copy("words"), np.arange(9), plain._inputs, plain._targets)
    monkeypatch.setattr(layers, "_products", lambda g, a: parts_module.GramGradient(g, a))
    left = pulled(plain, plain.start(), np.ones_like)
    right = pulled(gram, plain.start(), np.ones_like)
    assert left[1] == pytest.approx(right[1], rel=1e-5)
    assert left[2] == pytest.approx(right[2], rel=1e-5)
    assert left[3] * STEP == pytest.approx(right[3] * STEP, abs=1e-6)


def test_without_numba_the_sum_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = made("pooled", np.arange(9))
    fast = pulled(engine, engine.start(), np.ones_like)
    monkeypatch.setattr(parts_module, "compiled", lambda: None)
    slow = pulled(engine, engine.start(), np.ones_like)
    assert np.array_equal(fast[3], slow[3])
    assert fast[1] == pytest.approx(slow[1], rel=1e-12)


class Centred(nn.Module):
    """Looks at other rows of its batch."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x - x.mean(0))


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.out = nn.Linear(7, 7), nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.first(x.tanh()).mul_(2))


class BesideTheLargest(nn.Module):
    """Words, less the largest of the batch: the same to the bit for the same rows in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(11, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        e = self.words(x).mean(1)
        return self.out(e - e.detach().amax(0))


def test_modules_that_mix_users_are_refused() -> None:
    x, y = torch.randn(20, 7), torch.zeros(20, dtype=torch.long)
    mixed = nn.Sequential(nn.Linear(7, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
    with pytest.raises(ParameterError, match="'1' is a BatchNorm1d, which mixes users"):
        Network(mixed, np.arange(20), x, y)
    with pytest.raises(ParameterError, match="change another user's gradient"):
        Network(Centred(), np.arange(20), x, y)
    with pytest.raises(ParameterError, match="change another user's gradient"):
        Network(BesideTheLargest(), np.arange(20), torch.randint(0, 11, (20, 4)), y)


@pytest.mark.parametrize("method", ["auto", "one-pass", "vmap"])
def test_a_module_for_other_records_says_what_is_wrong(method: str) -> None:
    x, y = torch.randn(6, 7), torch.zeros(6, dtype=torch.long)
    with pytest.raises(ParameterError, match=r"zeros, of shape \(1, 7\): .*1x7 and 8x3"):
        Network(nn.Linear(8, 3), np.arange(6), x, y, method=method)


@pytest.mark.parametrize("method", ["one-pass", "vmap"])
def test_a_loss_that_is_no_number_a_record_is_refused(method: str) -> None:
    x, y = torch.randn(6, 7), torch.zeros(6, dtype=torch.long)
    with pytest.raises(ParameterError, match=r"shape \(\)"):
        Network(nn.Linear(7, 3), np.arange(6), x, y, loss=nn.CrossEntropyLoss(), method=method)


@pytest.mark.parametrize("method", ["one-pass", "vmap"])
def test_who_has_a_class_that_there_is_not_counts_for_nothing(method: str) -> None:
    """And changes nothing for the others, not by one bit: as if that record were not there."""
    x, y = torch.randn(6, 3), torch.tensor([0, 1, 7531, 1, 0, 1])
    users, fine = np.array([0, 1, 2, 2, 3, 4]), np.array([0, 1, 4, 5])
    engine = Network(nn.Linear(3, 2), users, x, y, micro=4, method=method)
    rest = Network(nn.Linear(3, 2), users[fine], x[fine], y[fine], micro=4, method=method)
    sums, norms = np.zeros((2, 8), np.int64), []
    for number, one in enumerate((engine, rest)):
        found = {}
        for batch in one.batches():
            n, pull = one.query(np.zeros(8), batch)
            pulled = pull(np.ones(len(n)), STEP)
            sums[number] += pulled.sums
            found |= dict(
                zip(batch.users.tolist(), zip(n, pulled.squares, strict=True), strict=True)
            )
            assert np.isfinite(one.losses(np.zeros(8), batch)).all()
            assert np.isfinite(one.right(np.zeros(8), batch)).all()
        norms.append(found)
    assert np.array_equal(*sums)
    assert norms[0].pop(2) == (0.0, 0)
    assert norms[0] == norms[1]
    assert engine.failed_users == {2}
    assert not rest.failed_users


def test_the_curator_is_told_on_whom_a_model_failed_and_no_analyst() -> None:
    people = pa.table({"who": [f"u{i}" for i in range(6)]})
    con = sparseq.create(None, {"t": people}, user="who", seed=1, purposes=IN_OR_OUT)
    x, y = torch.zeros(6, 3), torch.tensor([0, 1, 7531, 1, 0, 1])
    engine = Network(nn.Linear(3, 2), np.arange(6), x, y, micro=4)
    PrivateGD(steps=3, people=6).fit(con, engine, run="a", start=engine.start())
    (note,) = CuratorLog(con.backend.database).entries()
    assert "1 person" in note.message
    assert note.message.endswith("u2")
    assert "7531" not in note.message
    assert all("u2" not in release.query for release in con.releases())


def test_the_module_that_comes_back_is_used_as_any_other() -> None:
    engine = made("one channel", np.arange(9))
    model = engine.load(engine.start())
    x = torch.randn(2, 1, 10, 10)
    assert torch.equal(model(x), model(x))
    assert pulled(engine, engine.start(), np.ones_like)[3].any()


def test_what_one_pass_would_get_wrong_is_refused() -> None:
    x, y = torch.randn(4, 7), torch.zeros(4, dtype=torch.long)
    with pytest.raises((ParameterError, RuntimeError), match=r"in.place"):
        Network(InPlace(), np.arange(4), x, y)
    with pytest.raises(ParameterError, match="no recipe"):
        Network(Tied(), np.arange(4), torch.randn(4, 6), y, method="one-pass")
    with pytest.raises(DataError, match="3 users, 4 inputs"):
        Network(nn.Linear(7, 3), np.arange(3), x, y)
    with pytest.raises(ParameterError, match="micro"):
        Network(nn.Linear(7, 3), np.arange(4), x, y, micro=0)


def test_a_step_leaves_the_spends_that_contributions_leave() -> None:
    """And training on a store that also answers SQL stays within one budget for both."""
    users = np.arange(30)
    people = pa.table({"who": users, "n": np.ones(30, np.int64)})
    con = sparseq.create(
        None,
        {"t": people},
        user="who",
        kappa=0.5,
        seed=3,
        purposes=[sparseq.Questions(in_or_out=True, counts=10)],
    )
    con.sql("SELECT count(DISTINCT who) AS n FROM t")
    engine = made("one channel", users, micro=16)
    before = con.stream.accounts.spent.copy()
    noised_gradient(con, engine, engine.start(), label="one", clip=0.5)
    norms = pulled(engine, engine.start(), np.ones_like)[1]
    units = (con.stream.accounts.spent - before) / before  # a count costs 1
    assert units == pytest.approx(np.minimum(norms, 0.5) ** 2 / 0.25, rel=2e-3)
    before = con.stream.accounts.spent.copy()
    PrivateGD(steps=3, most=12, clip=0.5, rate=0.1, people=30).fit(
        con, engine, run="cnn", start=engine.start()
    )
    assert (con.stream.accounts.spent > before).any()
    assert (con.stream.pots[Pot.QUERIES].left(np.arange(30, dtype=np.int32)) >= 0).all()
