"""A view of a store sees what the store itself sees, and waits for nobody."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from server.made import made

import sparseq
from sparseq.base.errors import StoreError
from sparseq.question.plan import Options
from sparseq.sql.lowered_queries import Lowering
from sparseq.store._duckdb.backup import backup
from sparseq.store.curator import forget
from sparseq.store.explain import explained
from sparseq.store.public_view import PublicView, budget_facts, recorded, releases
from sparseq.store.whole_price import charge_of

COUNT = "SELECT count(*) AS n FROM t"
QUESTIONS = (
    f"{COUNT} WHERE kind = 'a'",
    "SELECT kind, count(*) AS n FROM t GROUP BY kind",
    f"{COUNT} WHERE x > (SELECT avg(x) FROM t)",
)


def view_of(con: sparseq.Store) -> PublicView:
    twin = con.backend.public_twin()
    return PublicView(con, Lowering(con.catalog, *twin, con.most, True, 0, con.found_bounds))


def check_same(con: sparseq.Store, view: PublicView) -> None:
    """The view and the store know the same answers, prices and promise."""
    view.refresh()
    for sql in QUESTIONS:
        query, options = con.lower(sql), Options()
        known, seen = con.stream.known(query, options), view.known(view.lower(sql), options)
        assert (known is None) == (seen is None), sql
        if known is not None and seen is not None:
            assert seen.arrow().equals(known.arrow())
            assert seen.facts == known.facts
        assert view.charge(query, options) == charge_of(con, query, options)
    assert budget_facts(con) == con.budget()
    assert releases(con, 3) == con.releases(3)


@pytest.fixture
def con(tmp_path: Path) -> Iterator[sparseq.Store]:
    with made(tmp_path / "s.sparseq") as con:
        yield con


def test_it_sees_answers_rows_that_come_and_erasures(
    con: sparseq.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = view_of(con)
    check_same(con, view)
    for sql in QUESTIONS:
        con.sql(sql)
        check_same(con, view)
    con.ingest(pa.table({"who": [1, 2], "kind": ["a", "b"], "x": [1.0, 2.0]}))
    check_same(con, view)
    forget(con, 3)
    con.sql(QUESTIONS[1])
    check_same(con, view)
    monkeypatch.setattr("sparseq.reuse.answer_cache._FEW", 1)  # else they are taken in one by one
    for sql in (COUNT, QUESTIONS[2]):
        con.sql(sql)
    check_same(con, view)


def test_it_explains_as_the_store_does(con: sparseq.Store) -> None:
    con.sql(QUESTIONS[1])
    view = view_of(con)
    for sql in QUESTIONS[:2]:
        query, options = con.lower(sql), Options()
        known = con.stream.known(query, options, anyhow=True)
        assert view.explain(query, options).facts == explained(con, query, options, known).facts


def test_it_waits_for_nobody(con: sparseq.Store) -> None:
    answer, view = con.sql(COUNT), view_of(con)
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with con.stream.lock:
            held.set()
            over.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(60)
    try:
        view.refresh()
        seen = view.known(view.lower(COUNT), Options())
        assert seen is not None
        assert seen.arrow().equals(answer.arrow())
        assert view.explain(view.lower(f"{COUNT} WHERE x > 2"), Options()).price
        assert recorded(con, 1).arrow().equals(answer.arrow())
        assert budget_facts(con)["releases"] == 1
    finally:
        over.set()
        holder.join()


def test_a_closed_store_is_not_seen_and_its_file_is_let_go_of(tmp_path: Path) -> None:
    con = made(tmp_path / "s.sparseq")
    con.sql(COUNT)
    view = view_of(con)
    backup(con, tmp_path / "copy.sparseq")
    view.refresh()
    con.close()
    with pytest.raises(StoreError, match="closed"):
        view.refresh()
    with pytest.raises(StoreError, match="closed"):
        recorded(con, 1)
    with sparseq.connect(tmp_path / "s.sparseq") as again:
        assert recorded(again, 1).facts.release == 1
        with pytest.raises(StoreError, match="no release"):
            recorded(again, 2)
