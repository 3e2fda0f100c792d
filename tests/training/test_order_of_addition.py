"""What a user is charged is a function of that user's records, to the last unit.

Squares of sums over several records go beyond 2**53, so that adding them up rounds, and the order
shows. It must not depend on who else is there, nor on how rows lie in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from sparseq.training import ClosedForm, exact_sums, family

Floats = NDArray[np.float64]
pytestmark = pytest.mark.filterwarnings("error")
STEP = 2.0**-40


def long_rows(seed: int, rows: int, width: int) -> Floats:
    """Integers whose squares are far beyond 2**53, and many zeros."""
    rng = np.random.default_rng(seed)
    x = np.rint(rng.normal(size=(rows, width)) * 2.0 ** rng.integers(20, 50, (rows, width)))
    x[rng.random(x.shape) < 0.3] = 0.0
    return x


def shuffled(x: Floats, seed: int) -> Any:
    """Return a CSR matrix whose rows have their columns in any order."""
    rng, found = np.random.default_rng(seed), sparse.csr_array(x)
    for first, stop in zip(found.indptr[:-1], found.indptr[1:], strict=True):
        order = first + rng.permutation(stop - first)
        found.indices[first:stop] = found.indices[order]
        found.data[first:stop] = found.data[order]
    found.has_sorted_indices = False
    return found


@pytest.mark.parametrize("width", [1, 2, 3, 7, 64, 65, 300])
def test_squares_of_a_row_do_not_depend_on_where_it_lies(width: int) -> None:
    x = long_rows(width, 40, width)
    dense, ragged = (
        exact_sums.fixed_row_squares(x),
        exact_sums.fixed_row_squares(sparse.csr_array(x)),
    )
    assert np.array_equal(exact_sums.fixed_row_squares(np.asfortranarray(x)), dense)
    assert np.array_equal(exact_sums.fixed_row_squares(x[::-1]), dense[::-1])
    for seed in range(3):
        assert np.array_equal(exact_sums.fixed_row_squares(shuffled(x, seed)), ragged)
    for k in range(len(x)):
        assert exact_sums.fixed_row_squares(x[k : k + 1]) == dense[k]
        assert exact_sums.fixed_row_squares(sparse.csr_array(x[k : k + 1])) == ragged[k]
    for found in (dense, ragged):
        truth = [sum(int(v) ** 2 for v in row) for row in x]
        assert np.allclose(found, np.array(truth, np.float64), rtol=width * 2.0**-52, atol=0)


def test_squares_of_empty_rows_are_nothing() -> None:
    for x in (np.zeros((3, 0)), sparse.csr_array((3, 4)), np.zeros((0, 4))):
        assert not exact_sums.fixed_row_squares(x).any()
        assert len(exact_sums.fixed_row_squares(x)) == x.shape[0]


@pytest.mark.parametrize("as_sparse", [False, True])
def test_a_users_norm_and_charge_are_the_same_alone_and_beside_others(as_sparse: bool) -> None:
    """The other one has a record that does not count, for which a CSR matrix is made anew, with
    its columns the other way round: sums in the order of what is stored differ by a unit then.
    """
    rng = np.random.default_rng(0)
    for _ in range(60):
        lengths = rng.integers(2, 40, 2)
        users = np.repeat([0, 1], lengths)
        x = rng.normal(size=(len(users), 20)) * rng.choice([1e-6, 1, 50], (len(users), 1))
        y = rng.normal(size=len(users))
        y[-1] = np.nan
        params = rng.normal(size=21)

        def pulled(
            keep: NDArray[np.bool_],
            users: Any = users,
            x: Floats = x,
            y: Floats = y,
            params: Floats = params,
        ) -> tuple[Floats, Any]:
            features = sparse.csr_array(x[keep]) if as_sparse else x[keep]
            engine = ClosedForm(family("linear"), users[keep], features, y[keep], bound=1.0)
            (batch,) = engine.batches()
            norms, pull = engine.query(params, batch)
            return norms, pull(np.full(len(norms), 0.7), STEP)

        norms, both = pulled(np.ones(len(users), np.bool_))
        for who in (0, 1):
            own, alone = pulled(users == who)
            assert own[0] == norms[who]
            assert alone.squares[0] == both.squares[who]
