"""Request ids of a store of format 3: the system's move to their namespaces, all others stay."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sparseq
from checks.stores import IN_OR_OUT
from sparseq.ledger._duckdb import former_request_ids
from sparseq.ledger._duckdb.former_request_ids import name_askers
from sparseq.ledger.request_id import Asker, RequestId
from sparseq.replay import AnswerFile, Log, replay
from sparseq.series import ActiveWatch, Monitor, QuerySeries, QueryText, Ticks
from sparseq.training import ClosedForm, PrivateGD, family

DAY = dt.date(2024, 1, 1)
LINE = '{"id": "1", "sql": "SELECT count(*) AS n FROM t"}\n'


def as_before(con: sparseq.Store) -> None:
    """Spell the ids of a store as format 3 did."""
    for release in con.releases():
        if release.request is None:
            continue
        text = release.request.text
        parts = text.split("/")
        former = {
            Asker.ANALYST: text,
            Asker.MONITOR: f"monitor/{text}",
            Asker.WATCH: f"watch/{text}",
            Asker.TRAIN: text.replace("%2F", "/"),
            Asker.REPLAY: f"{parts[0]}: {parts[-1]}",
        }[release.asker]
        con.backend.database.execute(
            "UPDATE ledger.release_1 SET request_id = ? WHERE id = ?", [former, release.id]
        )


def ask_everything(con: sparseq.Store, folder: Path) -> None:
    """Have every part of the system ask something that it finds again, free."""
    ticks = Ticks(dt.datetime(2024, 1, 1), "1d", dt.datetime(2024, 1, 2))
    query = QueryText.of("SELECT count(*) AS n FROM t WHERE day = :day")
    series = QuerySeries(con, "buyers", query, ticks)
    list(Monitor(con, ticks, [series]).run())
    watch = ActiveWatch(con, 4)
    watch.tick(1, "one")
    (folder / "log.jsonl").write_text(LINE)
    replay(con, Log(folder / "log.jsonl"), AnswerFile(folder / "a.csv", {}, False))
    for name in ("mine", "watch/1", "line: 7", "train r/1"):
        con.sql("SELECT count(*) AS n FROM t", request_id=name)


def train(con: sparseq.Store) -> None:
    x = np.linspace(-1, 1, 100)[:, None]
    engine = ClosedForm(family("logistic"), range(100), x, x[:, 0] > 0, bound=1.0)
    PrivateGD(steps=2, rate=1.0, people=100).fit(con, engine, run="r/1")


@pytest.fixture
def upgraded(tmp_path: Path) -> tuple[Path, list[tuple[object, ...]]]:
    """A store whose ids were spelled as before, and upgraded; and what it had released."""
    path, people = tmp_path / "s.sparseq", pa.table({"who": range(100), "day": [DAY] * 100})
    with sparseq.create(
        path,
        {"t": people},
        user="who",
        seed=1,
        purposes=[sparseq.Questions(in_or_out=True, counts=100, watch=0.05)],
    ) as con:
        ask_everything(con, tmp_path)
        train(con)
        names = [release.request for release in con.releases()]
        rest = facts(con)
        as_before(con)
        con.backend.database.execute("BEGIN")
        name_askers(con.backend.database)
        con.backend.database.execute("COMMIT")
    with sparseq.connect(path) as con:
        assert facts(con) == rest, "charges and answers, bit by bit"
        moved = [release.request for release in con.releases()]
        expected = [
            RequestId.of_analyst("log: 1") if name and name.asker is Asker.REPLAY else name
            for name in names
        ]
        assert moved == expected
    return path, rest


def facts(con: sparseq.Store) -> list[tuple[object, ...]]:
    columns = "id, released_at, query, sigma, answer, users, charges, pot, departed"
    return con.backend.database.sql(f"SELECT {columns} FROM ledger.release ORDER BY id").fetchall()


def test_all_that_was_asked_before_is_found_again_free(
    upgraded: tuple[Path, list[tuple[object, ...]]], tmp_path: Path
) -> None:
    path, rest = upgraded
    with sparseq.connect(path) as con:
        ask_everything(con, tmp_path)
        assert facts(con) == rest


def test_an_analyst_can_not_reach_what_was_moved(
    upgraded: tuple[Path, list[tuple[object, ...]]],
) -> None:
    with sparseq.connect(upgraded[0]) as con:
        for taken in ("monitor/buyers/2024-01-01", "r/1/1", "watch/1/alarm"):
            assert con.recorded(taken) is None


def test_a_run_of_an_earlier_version_is_not_gone_on_with(
    upgraded: tuple[Path, list[tuple[object, ...]]],
) -> None:
    """It did not write down what it depends on."""
    with sparseq.connect(upgraded[0]) as con:
        con.backend.database.execute("DELETE FROM meta WHERE key = 'train/r/1'")
        with pytest.raises(sparseq.QueryRefused, match="earlier version"):
            train(con)


def test_a_store_with_nothing_to_move_is_upgraded_too() -> None:
    with sparseq.create(
        None, {"t": pa.table({"who": [1]})}, user="who", seed=1, purposes=IN_OR_OUT
    ) as con:
        name_askers(con.backend.database)
        assert con.backend.storage.get(former_request_ids.FORMER) == 0
        con.sql("SELECT count(*) FROM t")
        name_askers(con.backend.database)
        assert [release.request for release in con.releases()] == [None]
        assert con.backend.storage.get(former_request_ids.FORMER) == 1
