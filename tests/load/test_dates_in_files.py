"""Dates in text: which comes first is told by the whole sample, or declared, and then it stays."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from sampled import one_in

import sparseq
from sparseq.base.errors import DataError, ParameterError
from sparseq.load.column_report import UnclearDates
from sparseq.store.curator import exact_sql

JUNE = dt.date(2025, 6, 5)
MAY = dt.date(2025, 5, 6)


def made(path: Path, days: list[str], **more: Any) -> sparseq.Store:
    path.write_text("who;day\n" + "".join(f"{k};{day}\n" for k, day in enumerate(days)))
    return sparseq.create(None, {"t": path}, user="who", seed=1, **more)


def days(con: sparseq.Store) -> list[Any]:
    return exact_sql(con, "SELECT day FROM t ORDER BY who")["day"].to_pylist()


@pytest.mark.parametrize(
    ("texts", "more", "first"),
    one_in(
        4,
        [
            (["05/06/2025", "24/12/2025"], {}, JUNE),
            (["05/06/2025", "12/24/2025"], {}, MAY),
            (["05.06.2025", "01.02.2025"], {}, JUNE),
            (["05/06/2025", "01/02/2025"], {"dates": "dmy"}, JUNE),
            (["05/06/2025", "01/02/2025"], {"dates": {"DAY": "mdy"}}, MAY),
            (["05.06.2025", "01.02.2025"], {"dates": "mdy"}, MAY),
            (["05-06-25", "unclear"], {"dates": {"day": "dmy"}}, None),
            (["5/6/25 9:05", "24/12/25 10:00"], {}, dt.datetime(2025, 6, 5, 9, 5)),
            (["05.06.2025, 09:05", "24.12.2025, 10:00"], {}, dt.datetime(2025, 6, 5, 9, 5)),
            (["5/6/2025 9:05 PM", "12/24/2025 1:00 AM"], {}, dt.datetime(2025, 5, 6, 21, 5)),
            (["05 Jun 2025", "24 Dec 2025"], {}, JUNE),
            (["June 5, 2025", "May 24, 2025"], {}, JUNE),
        ],
    ),
)
def test_the_order_of_dates(tmp_path: Path, texts: list[str], more: Any, first: Any) -> None:
    if first is None:
        with pytest.raises(DataError, match="no dates in text"):
            made(tmp_path / "a.csv", texts, **more)
    else:
        assert days(made(tmp_path / "a.csv", texts, **more))[0] == first


def test_dates_that_fit_both_are_asked_about(tmp_path: Path) -> None:
    for texts in (["05/06/2025", "07/07/2025"], ["07/07/2025"]):
        with pytest.raises(UnclearDates) as refused:
            made(tmp_path / "a.csv", texts)
        assert "dates of day" in refused.value.message
        assert "--dates dmy" in refused.value.hint
        assert "--dates mdy" in refused.value.hint
        assert refused.value.columns == ("day",)
    with pytest.raises(UnclearDates, match="05/06/2025 is 5 June 2025 or 6 May 2025"):
        made(tmp_path / "a.csv", ["07/07/2025", "05/06/2025"])


def test_what_a_store_has_decided_holds_for_every_later_row(tmp_path: Path) -> None:
    path = tmp_path / "s.sparseq"
    (tmp_path / "a.csv").write_text("who;day\n0;05/06/2025\n")
    sparseq.create(path, {"t": tmp_path / "a.csv"}, user="who", dates="mdy").close()
    for extra in ("", "9;24/12/2025\n9;31/12/2025\n"):
        with sparseq.connect(path) as con:
            (tmp_path / "b.csv").write_text(f"who;day\n{extra}1;05/06/2025\n2;01/02/2025\n")
            con.ingest(tmp_path / "b.csv")
            told = [n for n in con.curator_notes() if "did not fit" in n]
            assert len(told) == bool(extra)
    with sparseq.connect(path) as con:
        found = exact_sql(con, "SELECT who, day FROM t ORDER BY who").to_pylist()
    assert [r["day"] for r in found if r["who"] == 1] == [MAY, MAY]
    assert [r["day"] for r in found if r["who"] == 9] == [None, None]


@pytest.mark.parametrize(
    ("texts", "more", "error", "message"),
    one_in(
        3,
        [
            (["24/12/2025"], {"dates": "mdy"}, DataError, "are not mdy: the day comes first"),
            (["12/24/2025"], {"dates": "dmy"}, DataError, "are not dmy: the month comes first"),
            (["2025-12-24"], {"dates": {"day": "dmy"}}, DataError, "no dates in text"),
            (["24/12/2025"], {"dates": {"who": "dmy"}}, DataError, "no dates in text"),
            (["24/12/2025"], {"dates": {"when": "dmy"}}, ParameterError, "no column|no table"),
            (["24/12/2025"], {"dates": "ymd"}, ParameterError, "dates is 'ymd'"),
            (
                ["24/12/2025"],
                {"dates": {"day": "dmy"}, "types": {"day": "DATE"}},
                ParameterError,
                "both --type and --dates",
            ),
            (["24/12/2025"], {"dates": {1: "dmy"}}, ParameterError, "not a column's name"),
        ],
    ),
)
def test_what_is_declared_has_to_fit(
    tmp_path: Path, texts: list[str], more: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        made(tmp_path / "a.csv", texts, **more)


def test_one_order_is_declared_of_all_columns_and_another_of_one(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("who,x,y,z\n1,05/06/2025,05/06/2025,2025-01-02\n")
    con = sparseq.create(
        None, {"t": tmp_path / "a.csv"}, user="who", dates={"": "dmy", "y": "mdy"}, seed=1
    )
    (row,) = exact_sql(con, "SELECT x, y, z FROM t").to_pylist()
    assert row == {"x": JUNE, "y": MAY, "z": dt.date(2025, 1, 2)}
