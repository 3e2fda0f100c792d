"""A monitor asks every tick once, whatever stops it; its file is a copy of the journal."""

from __future__ import annotations

import csv
import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shop_days
from shop_days import BUYERS, DAYS, make, sources, spends, ticks

import sparseq
from sparseq.accounting import corollary_bound
from sparseq.base import whole_files as writing
from sparseq.base.errors import ParameterError, StoreError
from sparseq.series import Monitor, QuerySeries, QueryText, Ticks

KEYED = "SELECT {}, count(*) AS n FROM shop WHERE day = :day AND kind IN ('a', 'b') GROUP BY 1"
KINDS = ("parquet", "csv", "jsonl")


def read(path: Path) -> list[dict[str, Any]]:
    """A series file as text, whatever its kind: unknown is empty."""
    if path.suffix == ".parquet":
        rows = pq.read_table(path).to_pylist()
    elif path.suffix == ".csv":
        return list(csv.DictReader(path.open()))
    else:
        rows = [json.loads(line) for line in path.open()]
    return [{k: "" if v is None else str(v) for k, v in row.items()} for row in rows]


def run(con: sparseq.Store, out: Path | None, stop_after: int = 99) -> list[str]:
    """Run until the end, or as if killed after some ticks; return the labels that were done."""
    done = []
    monitor = Monitor(con, ticks(), sources(con), out)
    for ticked in monitor.run():
        done.append(ticked.tick.label)
        if len(done) == stop_after:
            return done
    monitor.flush()
    return done


@pytest.fixture(scope="module")
def whole(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[dict[str, list[dict[str, Any]]], list[list[int]]]:
    """The files of an uninterrupted run, and what everybody has spent in the end."""
    folder = tmp_path_factory.mktemp("whole")
    with make(None) as con:
        for kind in KINDS:
            run(con, folder / f"whole.{kind}")
        assert con.released == 2 * len(DAYS)
        return {k: read(folder / f"whole.{k}") for k in KINDS}, spends(con)


def test_one_row_a_tick_group_and_number(tmp_path: Path) -> None:
    with make(None) as con:
        out = tmp_path / "s.parquet"
        run(con, out)
        table = pq.read_table(out)
        assert " ".join(table.column_names) == (
            "series tick kind estimate column value error sigma bound forecast_error release"
        )
        rows = table.to_pylist()
        assert len(rows) == len(DAYS) * (1 + 2 * 2)
        assert [(r["series"], r["kind"], r["column"], r["release"]) for r in rows[5:10]] == [
            ("buyers", None, "buyers", 3),
            ("kinds", "a", "n", 4),
            ("kinds", "a", "money", 4),
            ("kinds", "b", "n", 4),
            ("kinds", "b", "money", 4),
        ]
        assert {(r["tick"], r["estimate"]) for r in rows[5:10]} == {(DAYS[1], "answer")}


def test_values_are_those_of_the_journal(tmp_path: Path) -> None:
    with make(None) as con:
        out = tmp_path / "s.parquet"
        run(con, out)
        for row in pq.read_table(out).to_pylist():
            answer = con.release(row["release"])
            assert answer.facts.request_id == f"monitor/{row['series']}/{row['tick']}"
            assert row["value"] in [a[row["column"]] for a in answer.rows()]
            assert row["error"] in [a[row["column"] + "_error"] for a in answer.rows()]
            assert row["sigma"] in answer.facts.sigma
            wide = corollary_bound(row["sigma"], answer.facts.coordinates, 0.05)
            assert wide <= row["bound"] <= wide + 0.5  # half a step of the lattice
            assert f"DATE '{row['tick']}'" in answer.facts.query


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_was_cut_off_anywhere_ends_as_one_that_was_not(
    tmp_path: Path, whole: Any, kind: str
) -> None:
    rows, spent = whole
    out = tmp_path / f"cut.{kind}"
    with make(None) as con:
        assert run(con, out, 3) == [str(d) for d in DAYS[:3]]  # some ticks are not in the file
        sources(con)[0].rows(ticks()[3])  # and of another tick, one series is answered
        run(con, out, 5)
        assert run(con, out)[-1] == str(DAYS[-1])
        assert run(con, out) == []
        assert read(out) == rows[kind]
        assert spends(con) == spent
        out.unlink()
        run(con, out)
        assert read(out) == rows[kind]
        assert spends(con) == spent


@pytest.mark.parametrize("kind", KINDS)
def test_every_version_of_the_file_is_whole(
    tmp_path: Path, whole: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, _ = whole
    out, seen = tmp_path / f"s.{kind}", []
    replaced = writing.os.replace

    def replace(old: Any, new: Any) -> None:
        replaced(old, new)
        seen.append(read(out))

    monkeypatch.setattr(writing.os, "replace", replace)
    with make(None) as con:
        run(con, out)
    assert len(seen) > 5
    for version in seen:
        assert version == rows[kind][: len(version)]
        assert len(version) % 5 == 0  # whole ticks


def test_a_failing_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "s.csv"
    with make(None) as con:
        run(con, out, 2)
        before = out.read_bytes()

        def full(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(writing.os, "replace", full)
            with pytest.raises(ParameterError, match="No space left"):
                run(con, out)
        assert out.read_bytes() == before
        assert [p.name for p in tmp_path.iterdir()] == ["s.csv"]
        run(con, out)
        assert con.released == 2 * len(DAYS)


def test_files_that_are_not_this_series(tmp_path: Path) -> None:
    out = tmp_path / "s.csv"
    with make(None, seed=6) as other:
        run(other, out)
    with make(None) as con, pytest.raises(StoreError, match="did not give"):
        run(con, out)
    out.write_text("a,b\n1,2\n")
    with make(None) as con, pytest.raises(StoreError, match="columns a, b"):
        run(con, out)
    out = tmp_path / "s.parquet"
    out.write_bytes(b"PAR1")
    with make(None) as con, pytest.raises(StoreError, match="can't be read"):
        run(con, out)
    with make(None) as con, pytest.raises(ParameterError, match="not known"):
        run(con, tmp_path / "s.xlsx")
    with make(None) as con:
        with pytest.raises(ParameterError, match="can't write"):
            run(con, tmp_path / "none" / "s.csv")
        assert con.released == 0


def test_a_series_added_later_is_asked_about_all_ticks(tmp_path: Path) -> None:
    out = tmp_path / "s.csv"
    with make(None) as con:
        (kinds,) = sources(con)[1:]
        for _ in Monitor(con, ticks(), [kinds], out).run():
            pass
        assert con.released == len(DAYS)
        run(con, out)
        assert con.released == 2 * len(DAYS)
        rows = read(out)
        assert sum(r["series"] == "buyers" for r in rows) == len(DAYS)
        assert run(con, out) == []


def test_another_query_under_an_old_name_has_answers_of_its_own() -> None:
    with make(None) as con:
        run(con, None, 2)
        given = con.releases()
        other = QuerySeries(con, "buyers", QueryText.of(BUYERS + " AND amount > 5"), ticks())
        (row,) = other.rows(ticks()[0])
        assert row.release == len(given) + 1
        assert other.rows(ticks()[0]) == [row], "and has it again, free"
        assert con.releases()[: len(given)] == given


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT count(*) AS n FROM shop", "the same answer"),
        ("SELECT count(*) AS n FROM shop WHERE day = :day AND kind = :kind", ":kind"),
        (
            "SELECT count(*) AS n FROM shop WHERE day = :day AND kind IN ('a', 'b') GROUP BY kind",
            "does not select",
        ),
        (
            "SELECT kind FROM shop WHERE day = :day AND kind IN ('a', 'b') GROUP BY kind",
            "aggregate",
        ),
        (
            "SELECT count(*) AS n FROM shop WHERE day = :day AND amount > "
            "(SELECT avg(amount) FROM shop WHERE day = :day)",
            "answer to another question at every tick",
        ),
    ],
)
def test_queries_that_make_no_series(sql: str, says: str) -> None:
    with make(None) as con, pytest.raises(sparseq.SparseqError, match=says):
        QuerySeries(con, "s", QueryText.of(sql), ticks())


def test_group_keys_of_several_series() -> None:
    with make(None) as con:
        assert Monitor(con, ticks(), sources(con)).schema.field("kind").type == pa.string()
        both = [
            QuerySeries(con, name, QueryText.of(KEYED.format(key)), ticks())
            for name, key in [("a", "kind IN ('a') AS kind"), ("b", "kind"), ("c", "kind AS value")]
        ]
        with pytest.raises(ParameterError, match="'kind' is"):
            Monitor(con, ticks(), both[:2])
        with pytest.raises(ParameterError, match="can't be called 'value'"):
            Monitor(con, ticks(), both[2:])


def test_daily_queries_are_lowered_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    import sparseq.sql.lowered_queries as lowering

    lowered, calls = lowering.lower_sql, []
    monkeypatch.setattr(
        lowering, "lower_sql", lambda *args: calls.append(args[0]) or lowered(*args)
    )
    with make(None) as con:
        run(con, None)
    assert len(calls) <= 6


def test_hours_and_weeks() -> None:
    hours = Ticks(dt.datetime(2024, 1, 1, 22), "1h", dt.datetime(2024, 1, 2, 1))
    assert [t.label for t in hours][1:3] == ["2024-01-01T23:00:00", "2024-01-02T00:00:00"]
    weeks = Ticks(dt.datetime(2024, 1, 1), "1w", dt.datetime(2024, 1, 15))
    assert [t.label for t in weeks] == ["2024-01-01", "2024-01-08", "2024-01-15"]
    once = [sparseq.Questions(in_or_out=True, counts=20)]
    rows = pa.table({"who": [1, 2, 3], "at": [dt.datetime(2024, 1, 1, 22, k) for k in (0, 30, 59)]})
    with sparseq.create(None, {"t": rows}, user="who", seed=1, kappa=1024, purposes=once) as con:
        sql = "SELECT count(*) AS n FROM t WHERE at >= :tick AND at < :next_hour"
        series = QuerySeries(con, "s", QueryText.of(sql), hours)
        values = [row.value for t in hours for row in series.rows(t)]
    assert values == pytest.approx([3, 0, 0, 0], abs=0.5)


@pytest.mark.parametrize("every", ["", "0d", "1x", "d", "1.5d", "99999999d"])
def test_lengths_that_are_none(every: str) -> None:
    with pytest.raises(ParameterError):
        Ticks(dt.datetime(2024, 1, 1), every)
    assert shop_days.ticks().whole_days


@pytest.mark.parametrize(("first", "every"), [("9999-12-31", "1d"), ("9999-01-01", "53w")])
def test_a_tick_that_would_never_end(first: str, every: str) -> None:
    with pytest.raises(ParameterError, match="after the year 9999"):
        Ticks(dt.datetime.fromisoformat(first), every)
    assert sum(1 for _ in Ticks(dt.datetime(9999, 12, 29))) == 2
