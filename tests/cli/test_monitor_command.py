"""`sparseq monitor`: files, restarts, and what is said when something is wrong."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from conftest import output, run

VISITORS = "SELECT count(DISTINCT who) AS visitors FROM visits WHERE day = :day"
PAGES = (
    "SELECT page, count(*) AS n FROM visits WHERE day >= :day AND day < :next_day "
    "AND seconds > :least GROUP BY page"
)


@pytest.fixture
def queries(tmp_path: Path) -> tuple[Path, Path]:
    folder = tmp_path / "queries"
    folder.mkdir()
    (folder / "visitors.sql").write_text(VISITORS)
    (folder / "pages.sql").write_text(PAGES)
    return folder / "visitors.sql", folder / "pages.sql"


def test_a_series_in_a_file(store: Path, queries: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "series.parquet"
    line = ("monitor", store, *queries, "--from", "2024-01-01", "--param", "least=3", "--out", out)
    first = run(*line, "--over", "day", "--to", "2024-01-04")
    assert (first.exit_code, first.stdout) == (0, "")
    assert "4 ticks answered" in first.stderr
    assert "NOT PRIVATE" in first.stderr
    assert pq.read_table(out).num_rows == 4 * (1 + 3)
    again = run(*line, "--to", "2024-01-10", "--quiet")
    assert (again.exit_code, again.output) == (0, "")
    assert pq.read_table(out).num_rows == 10 * (1 + 3)
    assert len(output("history", store, "--all", "--format", "csv").splitlines()) == 21


def test_without_a_file_it_is_csv(store: Path, queries: tuple[Path, Path]) -> None:
    line = ("monitor", store, queries[0], "--from", "2024-01-01", "--to", "2024-01-02")
    text = output(*line)
    assert text.splitlines()[0].startswith("series,tick,estimate,column,value,error")
    assert [row.split(",")[1] for row in text.splitlines()[1:]] == ["2024-01-01", "2024-01-02"]
    assert output(*line) == text


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        (["--from", "soon"], 2, "'soon' is no date"),
        (["--from", "2024-01-02", "--to", "2024-01-01"], 2, "before the first"),
        (["--from", "2999-01-01"], 2, "has not ended yet"),
        (["--from", "2024-01-01", "--every", "1y"], 2, "no length of time"),
        (["--from", "2024-01-01", "--to", "2024-01-02", "--every", "1h"], 2, "no times"),
        (["--from", "2024-01-01", "--to", "2024-01-02", "--over", "dya"], 2, "no such column"),
        (["--from", "2024-01-01", "--to", "2024-01-02", "--over", "page"], 2, "VARCHAR"),
        (["--from", "2024-01-01", "--to", "2024-01-02", "--param", "x"], 2, "name=value"),
        (["--from", "2024-01-01", "--to", "2024-01-02"], 2, ":least"),
        (["--from", "2024-01-01", "--to", "2024-01-02", "--param", "least='; x"], 3, ""),
        (["--from", "2024-01-01", "--to", "2024-01-02", "--param", "least=1", "-ox"], 2, "kind"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_and_nothing_is_asked(
    store: Path, queries: tuple[Path, Path], more: list[str], code: int, says: str
) -> None:
    result = run("monitor", store, queries[1], *more)
    assert (result.exit_code, result.stdout) == (code, "")
    assert says in result.stderr
    assert output("history", store, "--format", "json").strip() == "[]"


def test_two_files_of_one_name(store: Path, queries: tuple[Path, Path]) -> None:
    result = run("monitor", store, queries[0], queries[0], "--from", "2024-01-01")
    assert result.exit_code == 2
    assert "two series would be called 'visitors'" in result.stderr
