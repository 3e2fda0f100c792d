"""Weights in NumPy and compiled are the same bits, and exact where they must be."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sparseq.accounting import Budget, Price, sigma_for_scale
from sparseq.accounting.pilots import ladder
from sparseq.compiled import compiled, halves
from sparseq.engine.reduction import NORM_LIMIT, Runs
from sparseq.engine.weighted_reduction import weight_losses, weight_losses_numpy
from sparseq.stream import contributors
from sparseq.stream import user_weights as w
from sparseq.stream.contributors import Contributors, Loops
from sparseq.stream.pilot_noise import pilot_noise
from sparseq.stream.release_charges import Dues

MANY = 20_000


@pytest.fixture(scope="module")
def people() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Squared norms of all sizes, norms, allowances; some have nothing left, some no rows."""
    g = np.random.default_rng(1)
    squares = np.floor(np.exp(g.uniform(0, np.log(2.0**61), MANY))).astype(np.int64)
    squares[::97] = 0
    a = np.where(g.random(MANY) < 0.3, 1.0, g.uniform(0, 1, MANY))
    a[::89] = 0.0
    return squares, np.sqrt(squares.astype(np.float64)), a


def few(people: tuple[np.ndarray, ...], part: slice) -> tuple[np.ndarray, ...]:
    return tuple(x[part] for x in people)


@pytest.mark.parametrize("scale", [1 / 256, 0.7, 1.0, 3.0, 1000.0, 2.0**29.5])
def test_weights_and_their_norms_are_exact(
    people: tuple[np.ndarray, np.ndarray, np.ndarray], scale: float
) -> None:
    squares, r, a = few(people, slice(0, MANY, 21))
    mantissa, exponent = w.weights(r, a, scale)
    finer = w.finer_steps(scale)
    norms = w.weighted_norms(squares, mantissa, exponent, finer)
    for s, m, x, n, ri, ai in zip(squares, mantissa, exponent, norms, r, a, strict=True):
        weight = Fraction(int(m)) / Fraction(2) ** int(x)
        exact = weight**2 * int(s) * Fraction(4) ** finer
        assert n == -(-exact.numerator // exact.denominator)
        assert weight <= 1
        if ri > 0 and ai > 0:
            wanted = min(Fraction(1), Fraction(scale) * Fraction(ai) / Fraction(ri))
            assert wanted * (1 - Fraction(1, 2**15)) <= weight <= wanted * (1 + Fraction(1, 2**51))
    assert int(norms.max()) < 2**62


@pytest.mark.parametrize("measures", [1, 2])
@pytest.mark.parametrize("cautious", [2.0**-10, 12.0, 1e9])
def test_loops_and_numpy_are_the_same_bits(
    people: tuple[np.ndarray, np.ndarray, np.ndarray],
    measures: int,
    cautious: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Norms, allowances, pilots' sums, weights and bills, one part after the other."""
    if compiled() is None:
        pytest.skip("Numba is not installed")
    if measures == 2:  # on two threads
        monkeypatch.setattr(contributors, "halves", lambda n, work: halves(n, work, 1))
    g, both = np.random.default_rng(3), []
    norms = [people[0], g.permutation(people[0])][:measures]
    norms[0] = np.where(g.random(MANY) < 0.01, NORM_LIMIT, norms[0])
    left = np.floor(np.exp(g.uniform(0, 21, MANY))).astype(np.int64)
    left[::83] = 0
    budget = Budget(0.5, 48.0)
    for kind in (Contributors, Loops):
        dues = Dues(np.arange(MANY, dtype=np.int32), left, np.zeros(MANY, np.int64))
        dues.owed[:] = left // 3
        who = kind(dues, [n.copy() for n in norms], [0, -7][:measures], cautious)
        seen = [who.r.view(np.int64).tolist(), who.a.view(np.int64).tolist()]
        for most, a_min in ((np.inf, 1.0), (1000.0, 0.3), (1.0, 1.0)):
            edges = ladder(most, a_min).edges
            for start in (0, 3):
                price = pilot_noise(4, budget).price
                seen += [who.tally(edges, start, price).tolist(), dues.owed.tolist()]
        for scale in (1 / 256, 1.0, 57.3, 2.0**20):
            sigma = sigma_for_scale(scale, budget)
            step = 2.0 ** -w.finer_steps(scale)
            prices = [(Price.of(sigma, step, budget), w.finer_steps(scale))] * measures
            found = who.weigh(scale, prices)
            seen += [
                x.tolist()
                for x in (found.users, found.mantissa, found.exponent, found.faint, dues.owed)
            ]
        both.append(seen)
    assert both[0] == both[1]
    assert (dues.owed <= left).all()


@pytest.mark.parametrize("seed", range(20))
def test_weighted_cells_are_truncated_one_by_one(seed: int) -> None:
    g = np.random.default_rng(seed)
    people = int(g.integers(1, 40))
    runs = Runs.of(np.sort(g.integers(0, people, 300)).astype(np.int32))
    k, v = (g.integers(-1, 5, 300).astype(np.int32), g.integers(-50, 50, 300).astype(np.int32))
    distinct = bool(g.integers(2))
    v = (v > 0).astype(np.int32) if distinct else v
    n = len(runs.owners)
    mine = g.integers(0, 2**16 + 1, n), g.integers(16, 40, n)
    shift = int(g.integers(0, 25))
    wanted = [0] * 5
    for r in range(n):
        cells: dict[int, int] = {}
        for i in range(runs.first[r], runs.stop[r]):
            if k[i] >= 0 and v[i] != 0:
                cells[k[i]] = 1 if distinct else cells.get(k[i], 0) + int(v[i])
        for place, cell in cells.items():
            exact = Fraction(int(mine[0][r]) * abs(cell)) * Fraction(2) ** (shift - int(mine[1][r]))
            lost = (abs(cell) << shift) - exact.numerator // exact.denominator
            wanted[place] += lost * (1 if cell > 0 else -1)
    args = (runs, k, v, 5, distinct, mine, shift)
    assert weight_losses_numpy(*args).tolist() == wanted
    assert weight_losses(*args).tolist() == wanted
    if compiled() is not None:
        totals = np.zeros(5, np.int64)
        compiled().row_loops.weight_losses(
            runs.first, runs.stop, None, k, v, 1, distinct, *mine, shift, totals
        )
        assert totals.tolist() == wanted
