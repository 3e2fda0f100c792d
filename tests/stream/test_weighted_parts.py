"""A person's part is the same in the crowd and alone, in any order, by loops and in NumPy; and the
noise of pilots and answers is what is said."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from algorithm2 import Rungs, cells_of, root, rounded, weight
from numpy.typing import NDArray
from sampled import one_in
from scipy import stats
from stream.test_weighted_reference import tapped

import sparseq
import sparseq.stream.contributors
import sparseq.stream.released_parts
import sparseq.stream.weighted_sums
from checks.stores import made_store
from sparseq.accounting.pilots import ladder
from sparseq.engine.reduction import NORM_LIMIT
from sparseq.question.plan import Options
from sparseq.stream.release_charges import Ints
from sparseq.stream.user_weights import (
    Floats,
    allowances,
    finer_steps,
    hats,
    joint_norms,
    weighted_norms,
    weights,
)

LADDERS = [ladder(np.inf, 1.0), ladder(5.0, 0.3), ladder(1.0, 1.0), ladder(3.0, 1e-3)]
EXPONENTS = [0, -7]
SCALES = [1 / 256, 1.0, 363 / 256, 57.75, 2.0**20 + 1 / 256]


def people(seed: int, size: int) -> tuple[list[Ints], Ints]:
    """Squared norms in two measures, and what is left, in ledger units: extremes among them."""
    draw = np.random.default_rng(seed)
    odd = np.array([0, 1, 2, 3, 2**31, 2**52, 2**53 + 1, 2**61 + 1, NORM_LIMIT - 1, NORM_LIMIT])
    norms = [
        np.where(
            draw.random(size) < 0.2,
            draw.choice(odd, size),
            np.exp(draw.uniform(0, 40, size)).astype(np.int64),
        )
        for _ in range(2)
    ]
    left = np.where(
        draw.random(size) < 0.3,
        draw.choice([0, 1, 63, 64, 65, 12 << 24, (12 << 24) - 1, 48 << 24, 2**44], size),
        np.exp(draw.uniform(0, 21, size)).astype(np.int64),
    )
    return norms, left


def parts(norms: list[Ints], left: Ints, scale: float, start: int = 2) -> list[list[int]]:
    """All that is made of each person: a row of integers and of floats' bits."""
    r, a = joint_norms(norms, EXPONENTS), allowances(left, 12.375)
    found: list[Ints] = [r.view(np.int64), a.view(np.int64)]
    for of in LADDERS:
        one = hats(r, a, of.edges, start)
        found += [one.cell, one.low, one.high, one.norms]
    mantissa, exponent = weights(r, a, scale)
    found += [mantissa, exponent]
    for s, k in zip(norms, EXPONENTS, strict=True):
        there = s < NORM_LIMIT
        finer = finer_steps(scale / 2.0**k)
        found.append(weighted_norms(s * there, mantissa * there, exponent, finer))
    return np.stack(found, axis=1).tolist()


@pytest.mark.parametrize("scale", SCALES)
def test_a_person_is_the_same_in_the_crowd_and_alone(scale: float) -> None:
    norms, left = people(int(scale), 5000)
    crowd = parts(norms, left, scale)
    order = np.random.default_rng(1).permutation(5000)
    shuffled = parts([s[order] for s in norms], left[order], scale)
    assert shuffled == [crowd[i] for i in order]
    for i in range(0, 5000, 41):
        assert parts([s[i : i + 1] for s in norms], left[i : i + 1], scale) == [crowd[i]]


@pytest.mark.parametrize("scale", SCALES)
def test_parts_are_those_of_the_reference(scale: float) -> None:
    """Correctly rounded, and towards zero where it counts; in exact fractions."""
    norms, left = people(int(scale) + 3, 300)
    for one, row in zip(zip(*norms, left, strict=True), parts(norms, left, scale), strict=True):
        *squares, has = map(int, one)
        total = rounded(rounded(squares[0]) + rounded(squares[1]) / 4**7)
        r, a = (
            root(total),
            root(min(Fraction(1), rounded(Fraction(has, 1 << 24) / Fraction(12.375)))),
        )
        a = Fraction(0) if has < 64 else a
        assert row[:2] == [int(np.float64(float(x)).view(np.int64)) for x in (r, a)]
        for k, of in enumerate(LADDERS):
            cell, low, high, norm = row[2 + 4 * k : 6 + 4 * k]
            found = {c: v for c, v in ((cell - 1, low), (cell, high)) if v}
            right = cells_of(r, a, Rungs(tuple(of.edges.tolist()), 2, Fraction(1)))
            assert found == {c: v for c, v in right.items() if v}
            assert norm == low * low + high * high <= Fraction(a) ** 2 * 2**32
        mantissa, exponent, *counted = row[-4:]
        w = weight(r, a, Fraction(scale))
        assert Fraction(mantissa) / Fraction(2) ** exponent == w <= 1
        assert w == 0 or 2**15 <= mantissa < 2**16
        for s, n, k in zip(squares, counted, EXPONENTS, strict=True):
            exact = w**2 * s * Fraction(4) ** finer_steps(scale / 2.0**k)
            assert n == (0 if s == NORM_LIMIT else -(-exact.numerator // exact.denominator))


# What is refused ----------------------------------------------------------------------------------

ASKED = (
    "SELECT count(*) AS n FROM t",
    "SELECT count(DISTINCT who) AS n, count(*) AS m FROM t",
    "SELECT k, sum(x) AS s FROM t GROUP BY k",
    "SELECT avg(x) AS s, count(DISTINCT who) AS m FROM t WHERE k = 1",
    "SELECT sum(x * x * 1e9) AS s FROM t",
    "SELECT avg(x * x * 1e9) AS s FROM t",
)
SIZES = (1e-300, 1e-30, 1e-9, 1e-3, 1.0, 1e3, 1e9, 1e15, 1e30, 1e300)


@pytest.mark.parametrize(
    ("kappa", "norm_budget"),
    one_in(8, itertools.product([2.0**-30, 0.5, 1024.0], [1e-6, 48.0, 2.0**20])),
)
def test_nothing_is_refused_once_noise_was_drawn(
    kappa: float, norm_budget: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal after a pilot's noise would tell of the pilot, as often as anybody asks, free."""
    draw = np.random.default_rng(1)
    rows = {
        "who": draw.integers(0, 50, 400),
        "x": draw.uniform(0, 8, 400),
        "k": draw.integers(0, 3, 400),
    }
    con = sparseq.create(
        None,
        {"t": pa.table(rows)},
        user="who",
        kappa=kappa,
        seed=1,
        bounds={"x": (0, 8)},
        keys={"k": [0, 1, 2]},
        purposes=[sparseq.Questions(counts=norm_budget)],
    )
    drawn = [0]
    noise = sparseq.stream.released_parts.rounded_gaussian

    def counted(*args: Any) -> Any:
        drawn[0] += 1
        return noise(*args)

    monkeypatch.setattr(sparseq.stream.released_parts, "rounded_gaussian", counted)
    answered, refused = 0, []
    for sql in ASKED:  # a wish has a price where the question was asked without it
        con.ask(con.lower(sql))
        answered += 1
    for name in ("", "scale", "sigma", "accuracy", "precision", "price"):
        for size in SIZES if name else (1.0,):
            sql = ASKED[int(draw.integers(len(ASKED)))]
            drawn[0] = 0
            try:
                con.ask(con.lower(sql), Options(**{name: size} if name else {}), fresh=True)
                answered += 1
            except sparseq.SparseqError:
                refused.append((sql, name, size, drawn[0]))
    assert answered > 20
    assert [one for one in refused if one[-1]] == []


# The noise ----------------------------------------------------------------------------------------

RARE = 1e-5
DAYS = 31
QUICK, ALL = 35, 100
"""Columns: what is a tenth off is found among all, what is a fifth off among fewer."""
Noises = dict[str, NDArray[np.float64]]


def released(seed: int, columns: int, factor: float = 1.0) -> Noises:
    """Noise of all parts over what is said of it, from a store in which nobody has a row.

    Each column's first sum has a parent pilot, both pilots and an answer by day.

    Args:
        seed: Of the store.
        columns: How many, of which each has its noise.
        factor: Of the noise that is drawn to the noise that is said.
    """
    names = [f"v{i}" for i in range(columns)]
    types = {"who": pa.int64(), "day": pa.date32(), **dict.fromkeys(names, pa.float64())}
    rows = pa.Table.from_pylist([], pa.schema(types.items()))
    found: dict[str, list[Floats]] = {name: [] for name in PARTS}
    place, firsts = sparseq.stream.released_parts, list[Floats]()
    draw, top = place.rounded_gaussian, sparseq.stream.weighted_sums.visible_top

    def heard(people: Floats, *rest: Any) -> int:
        firsts.append(people)
        return top(people, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, "rounded_gaussian", lambda s, *rest: draw(factor * s, *rest))
        patch.setattr(sparseq.stream.weighted_sums, "visible_top", heard)
        con = sparseq.create(
            None,
            {"t": rows},
            user="who",
            seed=seed,
            time="day",
            bounds=dict.fromkeys(names, (0, 8)),
            purposes=[sparseq.Questions(counts=2.0**19)],
        )
        sigma_0 = con.guarantee.sigma_0
        for name in names:
            firsts.clear()
            with tapped(silent=False) as turns:
                answer = con.sql(
                    f"SELECT day, sum({name}) AS s FROM t WHERE day BETWEEN '2024-01-01' AND "
                    f"'2024-01-{DAYS}' GROUP BY day"
                )
            turn = turns[-1]
            choice = turn.choice
            assert answer.facts.price == choice.of.price == 1.0
            above = slice(turn.rungs[-1].start + 1, None)
            first, both = firsts[0], choice.reading.people
            second = 4 * ((1 / 16 + 1 / 4) * both - first / 16)
            found["first"].append(first / (4 * sigma_0))
            found["second"].append(second[above] / (2 * sigma_0))
            found["answer"].append(turn.answer[1] / (choice.missing.scale * sigma_0))
        assert con.stream.course is not None
        for one in con.stream.course.parents.values():
            found["parent"].append(np.array(one.people) / sigma_0)
        con.close()
    return {name: np.concatenate(some) for name, some in found.items()}


def doubt(noise: NDArray[np.float64]) -> float:
    """p-value of a test of a normal distribution: its variance, and its shape."""
    total = float((noise**2).sum())
    spread = 2 * min(stats.chi2.cdf(total, len(noise)), stats.chi2.sf(total, len(noise)))
    return min(spread, float(stats.kstest(noise, "norm").pvalue))


PARTS = ("parent", "first", "second", "answer")


@pytest.mark.parametrize("columns", one_in(2, [QUICK, ALL]))
def test_the_noise_of_every_part_is_what_is_said(columns: int) -> None:
    """False-alarm rate 8e-5: four parts, two tests each at 1e-5."""
    found = released(1, columns)
    assert [name for name in PARTS if doubt(found[name]) < RARE] == []
    assert all(len(found[name]) > 25 * columns for name in PARTS)


@pytest.mark.parametrize(("columns", "factor"), one_in(3, [(QUICK, 0.8), (ALL, 0.9), (ALL, 1.1)]))
def test_a_tenth_more_or_less_noise_fails(columns: int, factor: float) -> None:
    """The power of the test above, of every part: a fifth in the quick one."""
    found = released(2, columns, factor)
    assert [name for name in PARTS if doubt(found[name]) < RARE] == list(PARTS)


@pytest.mark.parametrize("asked", [50, pytest.param(150, marks=pytest.mark.deep)])
def test_parts_of_a_release_have_noise_of_their_own(asked: int) -> None:
    """Pilots of one question, and answers of neighbouring ones: |z| < 4.5, rate 4e-5."""
    con = sparseq.create(
        None,
        {"t": pa.table({"who": pa.array([], pa.int64())})},
        user="who",
        seed=5,
        purposes=[sparseq.Questions(counts=2.0**19)],
    )
    drawn: dict[int, list[list[int]]] = {0: [], 1: []}
    for _ in range(asked):
        with tapped(silent=False) as turns:
            con.sql("SELECT count(*) AS n FROM t", fresh=True)
        for i, (_, noise) in enumerate(turns[-1].noise[-3:-1]):
            drawn[i].append(noise)
    one, two = (np.array(drawn[i], np.float64) for i in (0, 1))
    for a, b in ((one, two), (one[1:], one[:-1]), (two[1:], two[:-1]), (one[1:], two[:-1])):
        z = stats.pearsonr(a.ravel(), b.ravel()).statistic * np.sqrt(a.size)
        assert abs(z) < 4.5


# What is declared ---------------------------------------------------------------------------------


def test_a_given_scale_is_not_that_of_the_people_counted_beside() -> None:
    rows = pa.table({"who": [i // 3 for i in range(3000)]})
    con = sparseq.create(None, {"t": rows}, user="who", seed=1)
    alone = con.sql("SELECT count(DISTINCT who) AS n FROM t").facts
    both = con.sql("SELECT count(*) AS m, count(DISTINCT who) AS n FROM t", scale=200).facts
    assert both.scale[0] == 200
    assert both.scale[1] <= 2 * alone.scale[0]


def test_the_curator_is_told_of_budgets_below_the_declared_least() -> None:
    own = pa.array([10.0, 1.0, 2.0, 3.0])
    rows = pa.table({"who": [0, 1, 2, 3], "own": own})
    more = {"table": "t", "user": "who", "budget_column": "own", "norm_budget": 10.0, "seed": 1}
    assert made_store(None, rows, least_budget=1.0, **more).curator_notes() == []
    con = made_store(None, rows, least_budget=2.5, **more)
    con.ingest(rows.set_column(0, "who", pa.array([3, 4, 5, 6])))
    assert [note.split(": ")[1] for note in con.curator_notes()] == [
        "2 people have less than the declared minimum; intervals may not cover them",
        "2 people have less than the declared minimum; intervals may not cover them",
    ]
