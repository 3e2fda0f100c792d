"""What a loader changes, pads, moves or drops is counted and told.

The table is in docs/loading.md, under "What you are told"; other tests of its lines: test_clamp,
test_nulls, test_odd_files, test_rows_one_by_one, tests/store/test_contested_keys.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sparseq

ESCAPED = "who,x\n" + "".join(f'{i},"say \\"hi\\", you"\n' for i in range(5))


def read(tmp_path: Path, text: str | bytes, **more: Any) -> tuple[list[Any], list[str]]:
    """Return the values of `x` by user, and what the curator is told."""
    path = tmp_path / "e.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return rows_of(str(path), **more)


def rows_of(source: Any, **more: Any) -> tuple[list[Any], list[str]]:
    with sparseq.create(None, {"e": source}, user="who", seed=1, **more) as store:
        storage = store.backend.database
        values = storage.execute(
            "SELECT e.x FROM by_user.e JOIN ledger.users USING (_user) ORDER BY id"
        ).fetchall()
        return [v for (v,) in values], store.curator_notes()


def test_a_file_all_of_whose_lines_are_left_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(sparseq.DataError, match=r"all of its 5 lines were left out") as found:
        read(tmp_path, ESCAPED)
    assert "--csv escape=" in (found.value.hint or "")
    with sparseq.create(None, {"e": pa.table({"who": [1], "x": ["a"]})}, user="who") as store:
        with pytest.raises(sparseq.DataError, match="all of its 5 lines"):
            store.ingest(str(tmp_path / "e.csv"), "e")
        assert store.ingest(str(tmp_path / "e.csv"), "e", once="monday") == 0
        assert "5 lines were left out" in store.curator_notes()[-1]


def test_quotes_with_an_escape(tmp_path: Path) -> None:
    values, told = read(tmp_path, ESCAPED + '5,a\\, b\n6,"c\\\\"\n7,\\N\n', csv={"escape": "\\"})
    assert values == ['say "hi", you'] * 5 + ["a, b", "c\\", None]
    assert told == []
    path = tmp_path / "e.csv"
    types, csv = {"who": "BIGINT", "x": "VARCHAR"}, {"escape": "\\"}
    with sparseq.create(None, {"e": str(path)}, user="who", types=types, csv=csv) as store:
        path.write_text('who,x\n9,"a \\"b\\""\n')
        assert store.ingest(str(path), "e") == 1  # it is the table's
        assert store.curator_notes() == []
    with pytest.raises(sparseq.ParameterError, match="escape and multiline"):
        read(tmp_path, ESCAPED, csv={"escape": "\\", "multiline": True})


def test_short_lines_and_a_last_one_that_is_torn_off(tmp_path: Path) -> None:
    values, told = read(tmp_path, "who,day,x\n1,2,3\n2,3\n3,4,5\n4,")
    assert values == [3, None, 5]
    assert told == [
        "e: 1 line has fewer values than the header has names: the others are NULL",
        "e: 1 last line was left out: no line end and too few values, as if torn off",
    ]
    assert read(tmp_path, "who,day,x\n1,2,3\n2,3,4") == ([3, 4], [])  # only its end is missing


@pytest.mark.parametrize("held", [True, False])
def test_infinite_numbers_are_counted_with_bounds_and_without(held: bool, tmp_path: Path) -> None:
    """Held in memory, or staged in a database: the rows are more than the former takes."""
    rows = [1.0, float("inf"), float("-inf"), float("nan"), 700.0]
    table = pa.table({"who": range(5), "x": rows})
    more: dict[str, Any] = {} if held else {"most": {"rows": 2}, "row_key": {"e": ["who"]}}
    values, told = rows_of(table, **more)
    assert values[:3] == rows[:3]
    assert told == [
        "e: x: 2 infinite numbers are stored; sums and averages leave them out "
        "(--bounds x=LOW..HIGH cuts them)"
    ]
    values, told = rows_of(table, bounds={"x": (0, 500)}, **more)
    assert values[:3] == [1, 500, 0]
    assert [line for line in told if "outside of the bounds" in line] == [
        "e: x: 3 of 5 values (60 %) were outside of the bounds 0 to 500, and were cut to them"
    ]


def test_times_with_offsets_and_years_of_two_digits(tmp_path: Path) -> None:
    text = "who,x\n1,2025-01-15 00:30:00+01:00\n2,2025-01-15 00:30:00\n3,2025-01-15 00:30:00Z\n"
    values, told = read(tmp_path, text, types={"x": "TIMESTAMP"})
    assert values[0] == dt.datetime(2025, 1, 14, 23, 30)
    assert told == ["e: x: 1 times have an offset, and were converted to UTC"]
    assert not any("offset" in s for s in read(tmp_path, text, types={"x": "TIMESTAMPTZ"})[1])
    values, told = read(tmp_path, "who,x\n1,03.04.25\n2,03.04.75\n", types={"x": "DATE:%d.%m.%y"})
    assert values == [dt.date(2025, 4, 3), dt.date(1975, 4, 3)]
    assert told == [
        "e: x: two-digit years are those of 1969 to 2068; 1 values are of 2000 or later"
    ]


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP"])
def test_a_databases_infinity_is_null_and_its_row_stays(kind: str, tmp_path: Path) -> None:
    """Also where the database says NOT NULL: for the database, infinity is a date."""
    with duckdb.connect(str(tmp_path / "d.db")) as con:
        con.execute(f"CREATE TABLE e (who INT NOT NULL, n INT NOT NULL, x {kind} NOT NULL)")
        con.execute("INSERT INTO e VALUES (1, 1, 'infinity'), (2, 1, '2025-02-01')")
    values, told = rows_of(f"{tmp_path / 'd.db'}#e")
    assert len(values) == 2
    assert values[0] is None
    assert values[1] is not None
    assert any("x: 1 values did not fit, and are NULL" in line for line in told)
    with sparseq.create(None, {"e": f"{tmp_path / 'd.db'}#e"}, user="who") as store:
        assert store.catalog.private[0].not_null == {"who", "n"}
