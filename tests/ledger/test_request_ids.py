"""Request ids are looked up in the store: never a wrong "new", and memory that does not grow."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparseq.ledger._duckdb.request_ids import RequestIds, Sieve

texts = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=40)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(groups=st.lists(texts, max_size=4), asked=texts)
def test_a_sieve_passes_all_that_was_seen_in_the_order_of_asking(
    groups: list[list[str]], asked: list[str]
) -> None:
    sieve = Sieve()
    for group in groups:
        sieve.add(group)
    seen = {text for group in groups for text in group}
    passed = sieve.passes(asked)
    assert [t for t in asked if t in seen] == [t for t in passed if t in seen]
    assert sieve.passes([]) == []


def test_a_sieve_holds_back_nearly_all_others_in_few_bytes() -> None:
    sieve = Sieve()
    seen = [f"log: line {i}" for i in range(300_000)]
    for start in range(0, len(seen), 7001):  # over the ends of layers
        sieve.add(seen[start : start + 7001])
    assert sieve.passes(seen) == seen
    others = [f"log: line {i}" for i in range(300_000, 400_000)]
    assert len(sieve.passes(others)) < 2000, "at most 0.1 % for each of 7 layers"
    assert sum(layer.nbytes for layer in sieve._layers) <= 4 * len(seen)


def store_with(numbers: dict[str | None, int]) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA ledger")
    connection.execute("CREATE TABLE ledger.release (id BIGINT, request_id VARCHAR)")
    for id, number in numbers.items():
        connection.execute("INSERT INTO ledger.release VALUES (?, ?)", [number, id])
    return connection


def test_ids_are_found_alone_together_and_after_they_are_written() -> None:
    connection = store_with({"a": 1, None: 2, "": 3, "it's": 4})
    ids = RequestIds(connection)
    assert [ids.get(id) for id in ("a", "", "it's", "b")] == [1, 3, 4, None]
    assert ids.look_up(["it's", "b", "a"]) == {"it's": 4, "a": 1}
    assert [ids.get(id) for id in ("a", "b", "")] == [1, None, 3]
    connection.execute("INSERT INTO ledger.release VALUES (5, 'b'), (6, 'c')")
    ids.add({"b": 5, "c": 6})
    assert [ids.get(id) for id in ("b", "c")] == [5, 6]
    assert ids.look_up(["b"]) == {"b": 5}
    assert ids.look_up(["new"]) == {}
    assert ids.get("b") == 5


class Counting:
    """A connection that counts what it is asked."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection, self.asked = connection, 0

    def __getattr__(self, name: str) -> object:
        self.asked += name == "execute"
        return getattr(self._connection, name)


def test_many_are_one_look_into_the_store_and_new_ones_none() -> None:
    connection = Counting(store_with({f"r{i}": i for i in range(500)}))
    ids = RequestIds(connection)  # type: ignore[arg-type]
    assert len(ids.look_up([f"r{i}" for i in range(400, 800)])) == 100
    assert connection.asked == 1
    assert [ids.get(f"r{i}") for i in range(400, 800)] == [*range(400, 500)] + [None] * 300
    assert ids.look_up([f"r{i}" for i in range(450, 600)]).keys() == {
        f"r{i}" for i in range(450, 500)
    }
    assert connection.asked == 1, "they were among those of before"
    draw = np.random.default_rng(0)
    new = [f"new {n}" for n in draw.integers(0, 10**9, 300)]
    assert all(ids.get(id) is None for id in new)
    assert connection.asked <= 4


@pytest.mark.parametrize("size", [0, 1, 70_000])
def test_what_the_store_has_is_known_when_it_is_opened(size: int) -> None:
    connection = store_with({})
    connection.execute(f"INSERT INTO ledger.release SELECT i, 'x' || i FROM range({size}) t(i)")
    ids = RequestIds(connection)
    asked = [f"x{i}" for i in range(0, size + 10, 7)]
    assert ids.look_up(asked) == {f"x{i}": i for i in range(0, size, 7)}
