"""The real data are what they claim to be; the made-up data are what was asked for."""

from __future__ import annotations

import sys
from datetime import date
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from data import events, make_cdnow  # noqa: E402

CDNOW = ROOT / "data" / "cdnow.parquet"
SAMPLE = """ customer_id  date number_of_cds  dollar_value
 00001 19970101  1   11.77\r
 00002 19970112  1   12.00\r
 00002 19970112  5   77.00\r
 00003 19970102  2   20.76\r
 00004 19970102 12  100.00\r

"""


@pytest.fixture(scope="module")
def cdnow() -> pa.Table:
    return pq.read_table(CDNOW)


@pytest.fixture(scope="module")
def stream() -> pa.Table:
    return pa.Table.from_batches(events.generate(users=2_000, rows=50_000, days=70, seed=1))


def test_cdnow_is_the_whole_master_file(cdnow: pa.Table) -> None:
    make_cdnow.check(cdnow)
    assert [(f.name, f.type) for f in cdnow.schema] == [
        ("customer_id", pa.int32()),
        ("date", pa.date32()),
        ("quantity", pa.int32()),
        ("amount", pa.float64()),
    ]
    assert all(column.null_count == 0 for column in cdnow.columns)
    assert CDNOW.stat().st_size < 400_000


def test_cdnow_is_sorted_by_date_then_customer(cdnow: pa.Table) -> None:
    key = cdnow["date"].cast(pa.int32()).to_numpy().astype(np.int64) * 100_000
    key += cdnow["customer_id"].to_numpy()
    assert (np.diff(key) >= 0).all()


def test_cdnow_has_the_ranges_the_readme_states(cdnow: pa.Table) -> None:
    assert pc.min_max(cdnow["customer_id"]).as_py() == {"min": 1, "max": 23_570}
    assert pc.min_max(cdnow["amount"]).as_py() == {"min": 0.0, "max": 1286.01}
    assert pc.min(cdnow["quantity"]).as_py() == 1


def test_writing_cdnow_again_gives_the_same_bytes(cdnow: pa.Table, tmp_path: Path) -> None:
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path in paths:
        make_cdnow.write(cdnow.cast(make_cdnow.SCHEMA), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert pq.read_table(paths[0]).equals(cdnow)


def test_parser_skips_the_heading_and_sorts_stably() -> None:
    assert make_cdnow.parse(SAMPLE.splitlines()).to_pydict() == {
        "customer_id": [1, 3, 4, 2, 2],
        "date": [date(1997, 1, 1), *[date(1997, 1, 2)] * 2, *[date(1997, 1, 12)] * 2],
        "quantity": [1, 2, 12, 1, 5],
        "amount": [11.77, 20.76, 100.0, 12.0, 77.0],
    }
    assert make_cdnow.parse([]).schema == make_cdnow.SCHEMA


def test_script_refuses_a_file_that_is_not_the_master_file(tmp_path: Path) -> None:
    source, target = tmp_path / "sample.txt", tmp_path / "sample.parquet"
    source.write_text(SAMPLE)
    result = CliRunner().invoke(make_cdnow.main, [str(source), str(target)])
    assert result.exit_code == 1
    assert "not the CDNOW master file" in result.output
    assert not target.exists()


def test_stream_has_the_sizes_asked_for(stream: pa.Table) -> None:
    assert stream.num_rows == 50_000
    assert len(pc.unique(stream["user_id"])) == 2_000
    assert pc.min_max(stream["day"]).as_py() == {
        "min": date(2024, 1, 1),
        "max": date(2024, 3, 10),
    }
    assert len(pc.unique(stream["activity"].cast(pa.string()))) == 50


def test_stream_is_in_time_order(stream: pa.Table) -> None:
    assert (np.diff(stream["day"].cast(pa.int32()).to_numpy()) >= 0).all()


def test_users_are_heavy_tailed_and_their_ids_are_not_dense(stream: pa.Table) -> None:
    ids, counts = np.unique(stream["user_id"].to_numpy(), return_counts=True)
    assert ids.min() >= 0
    assert ids.max() > 1_000 * len(ids)
    assert counts.max() > 20 * np.median(counts)


def test_popular_activities_come_first_and_amounts_are_cents(stream: pa.Table) -> None:
    counts = {r["values"]: r["counts"] for r in pc.value_counts(stream["activity"]).to_pylist()}
    assert counts["activity_01"] == pytest.approx(2 * counts["activity_02"], rel=0.1)
    amounts = stream["amount"].to_numpy()
    assert amounts.min() > 0
    assert amounts.max() <= events.MAX_DOLLARS
    assert np.median(amounts) == pytest.approx(events.MEDIAN_DOLLARS, rel=0.05)
    assert (np.abs(amounts * 100 - np.rint(amounts * 100)) < 1e-6).all()


def test_weekends_are_quieter(stream: pa.Table) -> None:
    weekday = pc.day_of_week(stream["day"]).to_numpy()
    per_weekday = np.bincount(weekday, minlength=7)
    assert per_weekday[5:].max() < per_weekday[:5].min()


def test_a_seed_fixes_the_stream_and_another_changes_it(stream: pa.Table) -> None:
    again, other = (
        pa.Table.from_batches(events.generate(users=2_000, rows=50_000, days=70, seed=seed))
        for seed in (1, 2)
    )
    assert again.equals(stream)
    assert not other.equals(stream)


@pytest.mark.parametrize(("users", "rows", "days"), [(1, 1, 1), (5, 3, 400), (3, 3, 2)])
def test_small_streams(users: int, rows: int, days: int) -> None:
    table = pa.Table.from_batches(events.generate(users, rows, days, activities=1))
    assert table.num_rows == rows
    assert len(pc.unique(table["user_id"])) <= users


def test_ids_of_all_users_are_different_across_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "CHUNK", 1_000)
    batches = list(events.generate(users=3_500, rows=3_500))
    assert [b.num_rows for b in batches] == [1_000, 1_000, 1_000, 500]
    assert len(pc.unique(pa.Table.from_batches(batches)["user_id"])) == 3_500


def test_sizes_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        next(events.generate(users=0, rows=10))


def test_events_script_writes_row_groups_in_time_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "CHUNK", 2_000)
    out = tmp_path / "events.parquet"
    options = ["--users", "100", "--rows", "10000", "--days", "30"]
    result = CliRunner().invoke(events.main, [str(out), *options])
    assert result.exit_code == 0, result.output
    metadata = pq.ParquetFile(out).metadata
    assert metadata.num_rows == 10_000
    ranges = [metadata.row_group(k).column(1).statistics for k in range(metadata.num_row_groups)]
    assert len(ranges) == 5
    assert all(a.max <= b.min for a, b in pairwise(ranges))
