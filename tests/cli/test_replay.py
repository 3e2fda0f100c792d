"""`sparseq replay`: its summary, its dry run, and the comparison with its page."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from browser import browse, needs_browser
from command_runs import output, run

import sparseq

QUERIES = [
    "SELECT count(DISTINCT who) AS people FROM visits WHERE day = DATE '2024-01-{:02}'",
    "SELECT count(*) AS n, sum(seconds) AS s FROM visits WHERE day = DATE '2024-01-{:02}'",
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    lines = [q.format(1 + i % 10) for i in range(40) for q in QUERIES]
    lines += ["SELECT who FROM visits", "SELECT count(* FROM visits"]
    path = tmp_path / "web.jsonl"
    path.write_text("".join(json.dumps({"sql": sql}) + "\n" for sql in lines))
    return path


def test_the_summary_counts_every_line(store: Path, log: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.parquet"
    for again in (0, 80):
        summary = json.loads(output("replay", store, log, "--output", out, "--format", "json"))
        assert summary.pop("seconds") > 0
        assert summary == {
            "lines": 82,
            "answered": 80,
            "refused": 1,
            "failed": 1,
            "from_journal": again,
        }
    assert "82 lines: 80 answered (80 read back, free), 1 refused, 1 failed" in output(
        "replay", store, log, "--output", out
    )


def test_a_dry_run_asks_and_charges_nothing(store: Path, log: Path) -> None:
    prices = json.loads(output("replay", store, log, "--dry-run", "--format", "json"))
    assert (prices["lines"], prices["answered"], prices["refused"]) == (82, 80, 1)
    assert prices["worst_case"] == pytest.approx(40 * 1 + 40 * 2)
    assert prices["affordable"] == 80, "120 of 400"
    assert "nothing was asked" in output("replay", store, log, "--dry-run")
    with sparseq.connect(store) as con:
        assert con.releases() == []


def test_a_dry_run_foretells_sums_whose_bounds_are_found(tmp_path: Path) -> None:
    """The bounds of a column are found, and priced, once."""
    store, log = tmp_path / "found.sparseq", tmp_path / "sums.jsonl"
    rows = pl.DataFrame({"who": [i % 500 for i in range(2000)], "x": [i % 30 for i in range(2000)]})
    sparseq.create(store, {"t": rows}, user="who").close()
    asked = [f"SELECT sum(x) AS s FROM t WHERE x > {i}" for i in range(3)]
    log.write_text("".join(json.dumps({"sql": sql}) + "\n" for sql in asked))
    prices = json.loads(output("replay", store, log, "--dry-run", "--format", "json"))
    assert (prices["answered"], prices["refused"]) == (3, 0)
    assert prices["worst_case"] > 3 + 1, "three sums, and what finds their bounds"
    out = tmp_path / "a.parquet"
    summary = json.loads(output("replay", store, log, "--output", out, "--format", "json"))
    assert (summary["answered"], summary["refused"]) == (3, 0)


def test_what_makes_no_sense_together_is_said(store: Path, log: Path, tmp_path: Path) -> None:
    for args in (
        [],
        ["--dry-run", "--output", "a.csv"],
        ["--output", "a.xlsx"],
        ["--compare", "worst-case", "--output", "a.csv"],
        ["--compare", "best-case", "--output", "a.parquet"],
    ):
        assert run("replay", store, log, *args).exit_code == 2
    assert run("replay", store, tmp_path / "none.csv", "--dry-run").exit_code == 6


def compared(store: Path, log: Path, folder: Path) -> tuple[Path, Path]:
    done = run(
        "curator",
        "compare",
        store,
        log,
        "--modes",
        "worst-case,individual,halt",
        "--output",
        folder / "c.parquet",
    )
    assert done.exit_code == 0, done.stderr
    assert "PRIVATE" in done.stderr
    for name in ("c.parquet", "c.html"):
        assert (folder / name).stat().st_mode & 0o077 == 0, "nobody else can read it"
    return folder / "c.parquet", folder / "c.html"


def test_a_comparison_is_what_the_store_would_do_and_leaves_it_alone(
    store: Path, log: Path, tmp_path: Path
) -> None:
    rows, _ = compared(store, log, tmp_path)
    table = pq.read_table(rows).to_pylist()
    assert [r["mode"] for r in table[:3]] == ["worst-case", "individual", "halt"]
    last = {r["mode"]: r for r in table}
    assert sum(r["answered"] for r in table if r["mode"] == "individual") == 80
    output("replay", store, log, "--output", tmp_path / "a.parquet")
    with sparseq.connect(store) as con:
        assert len(con.releases()) == 80, "the comparison asked nothing"
        accounts = con.stream.accounts
        share = accounts.spent.sum() / accounts.budgets.sum()
        most = (accounts.spent / accounts.budgets).max()
    assert last["individual"]["spent"] == pytest.approx(share)
    assert last["individual"]["most_spent"] == pytest.approx(most)
    assert last["worst-case"]["spent"] == pytest.approx(120 / 400)
    assert all(r["error"] == 1 for r in table if r["answered"] and not r["ever_left_out"])


def test_the_error_of_a_comparison_is_noise_and_what_is_missed(tmp_path: Path) -> None:
    """One person in four rows; the budget pays for two counts of one row each."""
    import pyarrow as pa

    from sparseq.replay import Log
    from sparseq.replay.compare import compare

    con = sparseq.create(
        None,
        {"t": pa.table({"who": [1, 2, 2, 2]})},
        user="who",
        kappa=0.5,
        purposes=[sparseq.Questions(in_or_out=True, counts=2)],
    )
    path = tmp_path / "l.csv"
    path.write_text("sql\n" + "SELECT count(*) AS n FROM t\n" * 4)
    rows = compare(con, Log(path), ["individual", "worst-case"]).shown.to_pylist()
    ours, worst = rows[::2], rows[1::2]
    assert [r["left_out"] for r in ours] == [1, 1, 2, 2]  # 9 > 2; then the other is at 2 of 2
    sigma = con.guarantee.sigma_0
    missed = [3, 3, 4, 4]
    assert [r["error"] for r in ours] == pytest.approx(
        [(1 + (m / sigma) ** 2) ** 0.5 for m in missed]
    )
    assert [r["bias"] for r in ours] == pytest.approx([m / sigma for m in missed])
    assert [r["bias"] for r in worst] == [0, 0, None, None]
    assert [r["answered"] for r in worst] == [True, True, False, False]
    assert [r["error"] for r in worst] == [1, 1, None, None]
    assert con.releases() == []


@needs_browser
def test_a_browser_shows_the_page_with_the_numbers_of_the_file(
    store: Path, log: Path, tmp_path: Path
) -> None:
    rows, page = compared(store, log, tmp_path)
    shown = browse(page, tmp_path / "profile")
    assert "PRIVATE" in shown
    assert len(re.findall(r'<path class="line[^"]* s\d"', shown)) == 5 * 3
    details = shown[shown.index("<details class=") :]
    cells = [
        [html.unescape(c) for c in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row)]
        for row in re.findall(r"<tr>(.*?)</tr>", details)[1:]
    ]
    table = pq.read_table(rows)
    assert len(cells) == table.num_rows == 240
    for texts, record in zip(cells, table.to_pylist(), strict=True):
        for text, value in zip(texts, record.values(), strict=True):
            if isinstance(value, float):
                assert float(text) == pytest.approx(value, rel=1e-5)
            elif not isinstance(value, bool):
                assert text == ("–" if value is None else str(value))
