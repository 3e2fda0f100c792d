"""Paths, numbers and sizes that nothing can have are refused in words: found by random lives."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sampled import one_in

import sparseq
from checks.stores import IN_OR_OUT
from sparseq.accounting.filters._compare import compare
from sparseq.base.errors import ParameterError

ROWS = pa.table({"who": [1, 2]})
USES: list[Callable[[sparseq.Store, str], object]] = [
    lambda con, path: sparseq.connect(path),
    lambda con, path: sparseq.create(path, {"t": ROWS}, user="who"),
    lambda con, path: sparseq.backup(con, path),
    lambda con, path: con.ingest(path),
]


@pytest.fixture
def con(tmp_path: Path) -> sparseq.Store:
    return sparseq.create(tmp_path / "s", {"t": ROWS}, user="who", seed=1)


@pytest.mark.parametrize(
    ("use", "path"),
    one_in(3, itertools.product(USES, ["x" * 256, "ä" * 128, "x/" * 2500, "a\0b"])),
    ids=range(16),
)
def test_a_path_that_no_file_has(
    con: sparseq.Store, use: Callable[[sparseq.Store, str], object], path: str
) -> None:
    with pytest.raises(ParameterError, match=r"bytes; the limit is|contain such"):
        use(con, path)


@pytest.mark.parametrize("digits", [38, 400, 5000])
def test_a_parameter_that_is_no_number_of_the_engines(con: sparseq.Store, digits: int) -> None:
    with pytest.raises(ParameterError, match="more than 38 digits"):
        con.sql("SELECT count(*) FROM t WHERE who = ?", [-(10**digits)])
    assert con.sql("SELECT count(*) AS n FROM t WHERE who < ?", [10**38 - 1]).rows()


@pytest.mark.parametrize("coordinates", [10**6 + 1, 10**400], ids=["one", "far"])
def test_more_coordinates_than_an_answer_has(con: sparseq.Store, coordinates: int) -> None:
    rows = pa.table({"user": [1], "coordinate": [0], "value": [1.0]})
    with pytest.raises(ParameterError, match="the limit, 1,000,000"):
        con.contribute(rows, coordinates=coordinates, label="x")


@pytest.mark.parametrize("epsilon", [1e-300, 1e20])
def test_an_epsilon_of_one_query_has_a_range(epsilon: float) -> None:
    with pytest.raises(ParameterError, match="query_epsilon"):
        compare(1.0, 1e-6, sigma=100.0, query_epsilon=epsilon)


@pytest.mark.parametrize(
    ("name", "scale"),
    one_in(3, itertools.product(["scale", "sigma"], [np.int64(3), np.float32(3), Fraction(3), 3])),
)
def test_an_option_is_any_number_that_python_has(
    con: sparseq.Store, name: str, scale: float
) -> None:
    made = sparseq.create(None, {"t": ROWS}, user="who", seed=1, purposes=IN_OR_OUT)
    answer = made.sql("SELECT count(*) AS n FROM t", **{name: scale})
    plain = sparseq.create(None, {"t": ROWS}, user="who", seed=1, purposes=IN_OR_OUT)
    assert answer.rows() == plain.sql("SELECT count(*) AS n FROM t", **{name: 3}).rows()


def test_an_identifier_that_no_file_can_have_is_nobody_s(con: sparseq.Store) -> None:
    from sparseq.store import curator

    for look in (curator.forget, curator.account):
        with pytest.raises(ParameterError, match="half a character"):
            look(con, "\ud800")
