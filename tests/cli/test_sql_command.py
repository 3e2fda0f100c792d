"""`sql` answers in every format, at every confidence, and charges nobody for a mistake."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from browser import Page
from command_runs import output, run
from sampled import one_in

PER_PAGE = (
    "SELECT page, count(DISTINCT who) AS people, avg(seconds) AS mean FROM visits GROUP BY page"
)
COUNT = "SELECT count(DISTINCT who) AS people FROM visits"


def releases(store: Path) -> int:
    return int(json.loads(output("budget", store, "--format", "json"))["releases"])


def test_table_of_one_value(store: Path, golden: Callable[[str, str], None]) -> None:
    golden("sql_one", output("sql", store, COUNT))


def test_table_of_groups(store: Path, golden: Callable[[str, str], None]) -> None:
    golden("sql_groups", output("sql", store, PER_PAGE))


def test_every_format_has_the_same_numbers(store: Path, tmp_path: Path) -> None:
    def ask(format: str) -> str:
        return output("sql", store, PER_PAGE, "--request-id", "one", "--format", format)

    rows = json.loads(ask("json"))["rows"]
    from_csv = list(csv.DictReader(io.StringIO(ask("csv"))))
    texts = [{k: "" if v is None else str(v) for k, v in row.items()} for row in rows]
    assert texts == from_csv
    for format in ("parquet", "arrow"):
        file = tmp_path / f"answer.{format}"
        output("sql", store, PER_PAGE, "--request-id", "one", "--output", file)
        frame = pl.read_parquet(file) if format == "parquet" else pl.read_ipc(file)
        assert frame.to_dicts() == rows
    output("sql", store, PER_PAGE, "--request-id", "one", "--output", tmp_path / "a.xlsx")
    sheet = pl.read_excel(tmp_path / "a.xlsx", engine="calamine")
    assert sheet.columns == list(rows[0])
    for row, cells in zip(rows, sheet.to_dicts(), strict=True):
        assert {k: pytest.approx(v) for k, v in row.items()} == cells
    assert releases(store) == 1


def test_documents_have_each_value_with_its_interval_and_what_is_promised(
    store: Path, tmp_path: Path
) -> None:
    """They are titled; the same in print as on a terminal; a key of any text is only text."""
    title = "How *many* | <b>"
    marked = output("sql", store, PER_PAGE, "--format", "markdown", "--title", title)
    lines = marked.splitlines()
    assert lines[0] == r"## How \*many\* \| \<b\>"
    assert lines[2:5] == ["| page | people | mean |", "| :-- | --: | --: |", lines[4]]
    cells = [cell.strip() for cell in lines[4].strip("|").split("|")]
    table = output("sql", store, PER_PAGE).splitlines()
    assert [c for c in table[2].split("  ") if c] == cells
    assert "NOT PRIVATE" in marked
    assert "0.5-zCDP (epsilon 4.89 at delta 1e-6)" in marked
    output("sql", store, PER_PAGE, "--title", title, "-o", tmp_path / "a.html")
    page = Page((tmp_path / "a.html").read_text())
    assert page.text["h1"] == [title]
    assert page.text["th"] == ["page", "people", "mean", "home", "cart", "pay"]
    assert page.text["td"][:2] == cells[1:]
    assert releases(store) == 1


def test_without_xlsxwriter_no_workbook_is_asked_for(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparseq.cli.output.find_spec", lambda name: None)
    refused = run("sql", store, COUNT, "-o", "a.xlsx")
    assert (refused.exit_code, releases(store)) == (2, 0)
    assert "pip install 'sparseq[excel]'" in refused.stderr


def test_an_answer_is_copied_for_a_spreadsheet(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a clipboard, and where it takes nothing, it is said; only the latter was asked."""
    monkeypatch.setattr("sparseq.cli.clipboard.shutil.which", lambda name: None)
    refused = run("sql", store, PER_PAGE, "--copy")
    assert (refused.exit_code, releases(store)) == (2, 0)
    assert "no clipboard" in refused.stderr
    program, copied = tmp_path / "pbcopy", tmp_path / "copied"
    program.write_text(f"#!/bin/sh\nexec cat > {copied}\n")
    program.chmod(0o700)
    monkeypatch.undo()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    output("sql", store, PER_PAGE, "--copy")
    head, *rows = [line.split("\t") for line in copied.read_text().split("\n")]
    assert head[:4] == ["page", "people", "people_error", "mean"]
    assert [row[0] for row in rows] == ["home", "cart", "pay"]
    program.write_text("#!/bin/sh\nexit 1\n")
    failed = run("sql", store, PER_PAGE, "--copy")
    assert (failed.exit_code, releases(store)) == (2, 1)
    assert "did not take" in failed.stderr


def test_an_answer_is_drawn_where_it_is_said(store: Path, tmp_path: Path) -> None:
    """What can't be drawn, or is said for nothing, is refused before anything is asked."""
    for words in (
        ["--plot", "a.pdf"],
        ["--plot", tmp_path / "none" / "a.html"],
        ["--title", "T"],
        ["--plot", "-", "--format", "csv"],
    ):
        refused = run("sql", store, PER_PAGE, *words)
        assert refused.exit_code == 2, words
    assert releases(store) == 0
    drawn = output("sql", store, PER_PAGE, "--plot", tmp_path / "a.html", "--title", "Of pages")
    page = Page((tmp_path / "a.html").read_text())
    assert page.text["h1"] == ["Of pages"]
    assert sum(a.get("class") == "bars" for _, a in page.found) == 6
    assert "home  72 ± 58" in drawn
    here = output("sql", store, PER_PAGE, "--plot", "-")
    assert "█" in here
    assert here.splitlines()[0] == "people, mean by page"
    assert releases(store) == 1


def test_json_has_what_is_public(store: Path) -> None:
    answer = json.loads(output("sql", store, COUNT, "--format", "json", "--request-id", "r"))
    assert answer["columns"] == ["people", "people_error"]
    assert answer["rows"][0]["people_error"] == pytest.approx(answer["bound"])
    assert answer["bound"] < answer["corollary_bound"]
    assert (answer["sigma"], answer["confidence"], answer["coordinates"]) == (
        20.0,
        0.95,
        1,
    )
    assert (answer["release"], answer["request_id"], answer["seeded"]) == (1, "r", True)
    guarantee = answer["guarantee"]
    assert (guarantee["kappa"], guarantee["mu"], guarantee["delta"]) == (0.5, 1.0, 1e-6)
    assert guarantee["epsilon"] == pytest.approx(4.886554)


def test_binary_formats_carry_their_facts(store: Path, tmp_path: Path) -> None:
    output("sql", store, COUNT, "-o", tmp_path / "a.parquet")
    facts = json.loads(pq.read_schema(tmp_path / "a.parquet").metadata[b"sparseq"])
    assert facts["release"] == 1


def test_binary_goes_into_a_pipe(store: Path) -> None:
    result = run("sql", store, COUNT, "--format", "arrow")
    assert pa.ipc.open_file(result.stdout_bytes).read_all().column_names == [
        "people",
        "people_error",
    ]


def test_unknown_error_is_a_question_mark(store: Path) -> None:
    query = "SELECT CASE WHEN count(*) > 5 THEN 1 ELSE 0 END AS many FROM visits"
    assert "1 ± ?" in output("sql", store, query)
    assert output("sql", store, query, "--format", "csv").splitlines()[1].endswith(",")


def test_knobs(store: Path) -> None:
    def facts(*args: str) -> dict[str, object]:
        answer: dict[str, object] = json.loads(
            output("sql", store, COUNT, "--format", "json", *args)
        )
        return answer

    assert facts("--sigma", "12.5")["sigma"] == 12.5
    assert facts("--scale", "1")["sigma"] == 20.0
    assert facts("--accuracy", "200")["bound"] == pytest.approx(200, rel=0.01)
    assert facts("--confidence", "0.5")["confidence"] == 0.5
    loose, tight = facts("--confidence", "0.9"), facts("--confidence", "0.99")
    assert loose["bound"] < tight["bound"]  # type: ignore[operator]


def test_asked_again_the_answer_is_the_recorded_one(store: Path) -> None:
    first = output("sql", store, COUNT, "--request-id", "today")
    again = output("sql", store, COUNT, "--request-id", "today")
    assert again.splitlines()[2] == first.splitlines()[2]
    assert "recorded: no new noise, no charge" in again
    assert "recorded" not in first
    other = run("sql", store, PER_PAGE, "--request-id", "today")
    assert (other.exit_code, releases(store)) == (3, 1)


@pytest.mark.parametrize("how", ["argument", "file", "stdin", "stdin as file"])
def test_ways_to_give_a_query(store: Path, tmp_path: Path, how: str) -> None:
    (tmp_path / "q.sql").write_text(f"-- people\n{COUNT};\n")
    args, input = {
        "argument": ([COUNT], None),
        "file": (["--file", str(tmp_path / "q.sql")], None),
        "stdin": (["-"], COUNT),
        "stdin as file": (["--file", "-"], COUNT + ";"),
    }[how]
    assert output("sql", store, *args, "--format", "csv", input=input).startswith("people,")


@pytest.mark.parametrize(
    ("args", "code", "says"),
    one_in(
        2,
        [
            ([], 2, "give one query"),
            ([COUNT, "--file", "q.sql"], 2, "give one query"),
            (["--file", "missing.sql"], 2, "can't read 'missing.sql'"),
            ([COUNT, "--format", "xml"], 2, "xml"),
            ([COUNT, "--sigma", "-1"], 2, "sigma is -1.0"),
            ([COUNT, "--sigma", "1", "--scale", "1"], 2, "same knob"),
            ([COUNT, "--confidence", "95"], 2, "Write 95% or 0.95"),
            ([COUNT, "--confidence", "100%"], 2, "between 0 and 1"),
            ([COUNT, "--output", "no/such/folder.csv"], 2, "can't write"),
            ([COUNT, "--explain", "--format", "csv"], 2, "table or json"),
            (["SELECT * FROM visits"], 3, "rows about people"),
            (["SELECT count(*) FROM visit"], 3, "visits"),
            (["SELECT count(*) FROM read_csv('x')"], 3, "read_csv"),
        ],
    ),
)
def test_mistakes_charge_nobody(store: Path, args: list[str], code: int, says: str) -> None:
    result = run("sql", store, *args)
    assert (result.exit_code, result.stdout) == (code, "")
    assert says in result.stderr
    assert "Traceback" not in result.stderr
    assert releases(store) == 0


def test_a_file_appears_whole_or_not_at_all(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "answer.csv"
    file.write_text("as it was")
    assert run("sql", store, "SELECT nonsense FROM visits", "-o", file).exit_code == 3
    assert file.read_text() == "as it was"
    output("sql", store, COUNT, "-o", file)
    assert file.read_text().startswith("people,people_error\n")
    assert {p.name for p in tmp_path.iterdir()} == {"answer.csv", "web.sparseq"}


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="no /dev/null")
def test_a_device_is_written_to_and_not_replaced(store: Path) -> None:
    output("sql", store, COUNT, "-o", "/dev/null")
    assert not Path("/dev/null").is_file()


def test_explain_charges_nothing(store: Path, golden: Callable[[str, str], None]) -> None:
    golden("explain", output("sql", store, PER_PAGE, "--explain"))
    facts = json.loads(output("sql", store, PER_PAGE, "--explain", "--format", "json"))
    assert (facts["coordinates"], facts["charged"]) == (12, False)
    assert [(k["name"], k["size"]) for k in facts["keys"]] == [("page", 4)]
    assert facts["worst_case_charge"] == pytest.approx(len(facts["measures"]))
    assert releases(store) == 0


def test_seeded_answers_are_loud_in_every_format(store: Path) -> None:
    assert "NOT PRIVATE" in run("sql", store, COUNT).stdout
    assert "NOT PRIVATE" in run("sql", store, COUNT, "--format", "csv").stderr


def test_months_are_shown_as_dates_and_hours_as_times(store: Path) -> None:
    where = "day BETWEEN DATE '2024-01-01' AND DATE '2024-02-29'"
    sql = f"SELECT date_trunc('{{}}', day) AS t, count(*) AS n FROM visits WHERE {where} GROUP BY t"
    text = output("sql", store, sql.format("month"))
    assert "2024-01-01" in text
    assert "2024-02-01" in text
    assert "00:00:00" not in text
    assert "(2024-01-01, 2024-02-01)" in output("sql", store, sql.format("month"), "--explain")
