"""Rows that are replaced and people who are erased, beside plain dictionaries and Algorithm 2."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stream.test_reference import (
    DAY,
    Asked,
    Row,
    Running,
    Stream,
    arrow,
    questions,
    silent,
    some_rows,
)

import sparseq
import sparseq.stream.step
from checks.stores import IN_OR_OUT, made_store
from sparseq.load._duckdb.storage import MAX_RUNS, Storage
from sparseq.store.curator import forget

UNIT = 2**24


# Random streams -----------------------------------------------------------------------------------


class Changing(Running):
    """A store with a row key beside a dictionary from user and key to the row."""

    def __init__(self, stream: Stream, path: Path | None, row_key: tuple[str, ...]) -> None:
        self.row_key, self.more = row_key, {"row_key": row_key}
        self.current: dict[tuple[Any, ...], Row] = {}
        super().__init__(stream, path)

    def _arrived(self, rows: list[Row]) -> int:
        some = super()._arrived(rows)
        for row in rows:
            if row.who is not None:
                self.current[row.who, *(getattr(row, c) for c in self.row_key)] = row
        self._settle()
        return some

    def _settle(self) -> None:
        self.rows = [(row.who, row) for row in self.current.values() if row.who is not None]

    def ingest(self, rows: list[Row]) -> None:
        whole = [r for r in rows if r.who is not None]
        versions = {(r.who, *(getattr(r, c) for c in self.row_key)) for r in whole}
        assert self.con.ingest(arrow(rows, self.stream.budgets)) == len(versions)
        self._arrived(rows)

    def forget(self, who: int) -> None:
        if who not in self.reference.budgets:
            with pytest.raises(sparseq.ParameterError, match=f"'{who}'"):
                forget(self.con, who)
            return
        theirs = [k for k, row in self.current.items() if row.who == who]
        assert forget(self.con, who).rows == {"t": len(theirs)}
        for k in theirs:
            del self.current[k]
        self._settle()

    def check_spends(self) -> None:
        """Everybody's account is the one that they have always had, erased or not."""
        spent = self.con.stream.accounts.spent
        assert len(spent) == len(self.reference.spent)
        for who, expected in self.reference.spent.items():
            known = self.con.backend.storage.people().find(str(who)).inside()
            assert known is not None
            assert spent[known.user] == expected <= self.reference.budgets[who]
            assert self.con.stream.accounts.budgets[known.user] == self.reference.budgets[who]

    def check_rows(self) -> None:
        """Both orders hold the rows as they are now."""
        expected = sorted((r.who, str(r.day), str(r.kind)) for _, r in self.rows)
        for schema in ("by_user", "by_time"):
            found = self.con.backend.database.execute(
                f"SELECT id, day, kind FROM {schema}.t JOIN ledger.users USING (_user)"
            ).fetchall()
            assert sorted((w, str(d), str(k)) for w, d, k in found) == expected


rows_of = st.builds(
    some_rows, st.integers(0, 2**32 - 1).map(random.Random), st.sampled_from([40, 12, 3, 1])
)


@dataclass(frozen=True)
class Forget:
    who: int


forgets = st.sampled_from([21, 21, 3, 8, 13, 77]).map(Forget)


@st.composite
def streams(draw: st.DrawFn) -> tuple[Stream, list[Any]]:
    kappa, norm_budget = 0.5, draw(st.sampled_from([20.0, 5.0]))
    question = questions((2 * kappa) ** -0.5)
    own = st.sampled_from([None, 1.0, norm_budget])
    stream = Stream(
        kappa,
        norm_budget,
        draw(st.booleans()),
        draw(st.none() | st.fixed_dictionaries(dict.fromkeys((0, 1, 2, 3, 5, 8, 13, 21), own))),
        draw(rows_of),
        [],
    )
    step = st.one_of(question, question, rows_of, rows_of, forgets, forgets, st.none())
    return stream, draw(st.lists(step, min_size=2, max_size=10))


few = settings(
    max_examples=6, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
many = settings(few, max_examples=100)
lives = given(
    drawn=streams(),
    on_disk=st.sampled_from([False, False, True]),
    row_key=st.sampled_from([("day",), ("kind",), ("kind", "day"), ("n", "day")]),
)


@few
@lives
def test_sums_and_spends_are_those_of_the_rows_as_they_are_at_each_query(
    tmp_path_factory: pytest.TempPathFactory, **drawn: Any
) -> None:
    check_life(tmp_path_factory, **drawn)


@pytest.mark.deep
@many
@lives
def test_sums_and_spends_of_many_lives_are_those_of_the_rows(
    tmp_path_factory: pytest.TempPathFactory, **drawn: Any
) -> None:
    check_life(tmp_path_factory, **drawn)


def check_life(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: tuple[Stream, list[Any]],
    on_disk: bool,
    row_key: tuple[str, ...],
) -> None:
    stream, steps = drawn
    path = tmp_path_factory.mktemp("stream") / "s.sparseq" if on_disk else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparseq.stream.step, "rounded_gaussian", silent)
        running = Changing(stream, path, row_key)
        try:
            for step in [*steps, None]:
                if step is None:
                    running.reopen()
                elif isinstance(step, Asked):
                    running.ask(step)
                elif isinstance(step, Forget):
                    running.forget(step.who)
                else:
                    running.ingest(step)
                running.check_rows()
                running.check_spends()
        finally:
            running.con.close()


# Replacing ----------------------------------------------------------------------------------------


def orders(*rows: tuple[Any, Any, Any, Any]) -> pa.Table:
    names = ("who", "day", "order", "amount")
    columns = [list(c) for c in zip(*rows, strict=True)]
    columns[1] = [None if d is None else DAY.replace(day=d) for d in columns[1]]
    return pa.table(dict(zip(names, columns, strict=True)))


def store(*rows: Any, path: Path | None = None, **more: Any) -> sparseq.Store:
    more = {"row_key": "order", "norm_budget": 1e6, **more}
    return made_store(path, orders(*rows), table="t", user="who", **more, in_or_out=True)


def stored(con: sparseq.Store, schema: str = "by_user") -> list[tuple[Any, ...]]:
    return con.backend.database.execute(
        f'SELECT id, day(day)::INT, "order", amount FROM {schema}.t JOIN ledger.users '
        "USING (_user) ORDER BY ALL"
    ).fetchall()


def spent(con: sparseq.Store) -> list[float]:
    return [units / UNIT for units in con.stream.accounts.spent.tolist()]


def test_a_corrected_row_replaces_the_old_one_and_what_was_charged_stands() -> None:
    con = store(("ann", 1, 7, 10.0), ("ann", 2, 8, 20.0), ("bob", 1, 9, 5.0))
    con.sql("SELECT count(*) AS n FROM t WHERE day = DATE '2024-03-01'")
    assert spent(con) == [1, 1]
    assert con.ingest(orders(("ann", 5, 7, 11.0), ("ann", 5, 6, 1.0))) == 2
    rows = [("ann", 2, 8, 20.0), ("ann", 5, 6, 1.0), ("ann", 5, 7, 11.0), ("bob", 1, 9, 5.0)]
    assert stored(con) == stored(con, "by_time") == rows
    assert spent(con) == [1, 1]
    con.sql("SELECT count(*) AS n FROM t WHERE day = DATE '2024-03-01'")
    assert spent(con) == [1, 2]


@pytest.mark.parametrize("when", ["at creation", "later"])
def test_of_several_versions_in_one_file_the_last_one_counts(when: str) -> None:
    versions = [("ann", 1, 7, 10.0), ("bob", 1, 7, 1.0), ("ann", 3, 7, 30.0), ("ann", 2, 7, 20.0)]
    con = store(*versions if when == "at creation" else versions[:1])
    if when == "later":
        assert con.ingest(orders(*versions)) == 2
    assert stored(con) == stored(con, "by_time") == [("ann", 2, 7, 20.0), ("bob", 1, 7, 1.0)]


def test_files_are_in_the_order_in_which_they_are_given(tmp_path: Path) -> None:
    paths = [tmp_path / "b.parquet", tmp_path / "a.parquet"]
    for i, path in enumerate(paths):
        pyarrow.parquet.write_table(orders(("ann", 1, 7, float(i))), path)
    con = sparseq.create(None, {"t": paths}, user="who", row_key=["order"], purposes=IN_OR_OUT)
    assert stored(con) == [("ann", 1, 7, 1.0)]
    con.ingest(paths[::-1])
    assert stored(con) == [("ann", 1, 7, 0.0)]


def test_the_last_version_is_the_last_in_a_large_file_too(tmp_path: Path) -> None:
    """Many row groups, read by several threads."""
    size, versions = 70_000, 10
    table = pa.table(
        {
            "who": [i % 1000 for i in range(size)] * versions,
            "k": [i // 1000 for i in range(size)] * versions,
            "v": [v for v in range(versions) for _ in range(size)],
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet", row_group_size=10_000)
    con = sparseq.create(None, tmp_path / "t.parquet", user="who", row_key="k", purposes=IN_OR_OUT)
    for _ in range(2):
        found = con.backend.database.execute("SELECT count(*), min(v) FROM by_user.t").fetchall()
        assert found == [(size, versions - 1)]
        con.ingest(tmp_path / "t.parquet")


def test_two_users_with_the_same_key_do_not_touch_each_other() -> None:
    con = store(("ann", 1, 7, 10.0), ("bob", 1, 7, 20.0))
    con.ingest(orders(("bob", 2, 7, 21.0), ("cid", 1, 7, 5.0)))
    assert stored(con) == [("ann", 1, 7, 10.0), ("bob", 2, 7, 21.0), ("cid", 1, 7, 5.0)]


def test_a_missing_value_in_a_key_is_a_value_and_rows_of_nobody_replace_nothing() -> None:
    con = store(("ann", 1, None, 1.0), ("ann", 2, None, 2.0), ("ann", 1, 3, 3.0))
    assert stored(con) == [("ann", 1, 3, 3.0), ("ann", 2, None, 2.0)]
    con.ingest(orders(("ann", 5, None, 5.0), (None, 1, 3, 9.0)))
    assert stored(con) == [("ann", 1, 3, 3.0), ("ann", 5, None, 5.0)]


def test_each_of_several_tables_has_its_own_key_or_none() -> None:
    visits = pa.table({"WHO": ["ann", "ann"], "Page": ["x", "x"]})
    tables = {"t": orders(("ann", 1, 7, 1.0), ("ann", 1, 7, 2.0)), "visits": visits}
    for row_key, rows in [({"t": ["ORDER", "who"]}, (1, 2)), ({"visits": "page"}, (2, 1))]:
        con = sparseq.create(None, tables, user="who", row_key=row_key, purposes=IN_OR_OUT)
        con.ingest(visits, "visits")
        many = [
            con.backend.database.execute(f"SELECT count(*) FROM by_user.{t}").fetchall()[0][0]
            for t in ("t", "visits")
        ]
        assert many == [rows[0], 1 if rows[1] == 1 else 4]
    with pytest.raises(sparseq.ParameterError, match="several tables"):
        sparseq.create(None, tables, user="who", row_key=["day"], purposes=IN_OR_OUT)
    with pytest.raises(sparseq.ParameterError, match="'visit'") as caught:
        sparseq.create(None, tables, user="who", row_key={"visit": ["page"]}, purposes=IN_OR_OUT)
    assert "visits" in caught.value.hint


def test_a_key_of_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(sparseq.DataError, match="'oder'"):
        store(("ann", 1, 7, 1.0), row_key=["oder"])


def test_a_correction_that_fails_leaves_the_old_row() -> None:
    con = store(("ann", 1, 7, 10.0))
    bad = pa.table({"who": ["ann"], "day": ["2024-03-01"], "order": [7]})
    with pytest.raises(sparseq.DataError):
        con.ingest(bad)
    assert stored(con) == [("ann", 1, 7, 10.0)]


def test_the_same_file_again_changes_nothing_however_often(tmp_path: Path) -> None:
    rows = [(f"u{i % 7}", i % 9 + 1, i, float(i)) for i in range(50)]
    con = store(*rows, path=tmp_path / "s")
    once = stored(con)
    for _ in range(2 * MAX_RUNS):
        con.ingest(orders(*rows))
        assert stored(con) == stored(con, "by_time") == once
    con.close()
    con = sparseq.connect(tmp_path / "s")
    assert con.catalog.table("t").row_key == ("order",)
    con.ingest(orders(*rows))
    assert stored(con) == once
    con.close()


def test_a_row_is_written_anew_a_few_times_however_many_ingests_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[int] = []
    done = Storage.write_anew

    def counted(self: Storage, table: Any, where: str) -> None:
        written.append(len(stored(con)))
        done(self, table, where)

    monkeypatch.setattr(Storage, "write_anew", counted)
    con = store(("ann", 1, 0, 0.0))
    for i in range(1, 60):
        con.ingest(orders((f"u{i % 5}", i % 28 + 1, i, 1.0), (f"u{i % 5}", 1, i, 2.0)))
    assert len(stored(con)) == 60
    assert sum(written) < 5 * 60
    assert stored(con) == stored(con, "by_time")
