"""The notebook of docs/ runs from top to bottom, and a browser shows what it puts out."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from browser import CHROMIUM, browse, loosened

import sparseq

ROWS = pa.table({"who": [1, 2]})
ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs/notebooks/first.ipynb"


@pytest.fixture(scope="module")
def cells() -> list[Any]:
    """The code cells, run in a kernel of their own."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}
    ).execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cells: list[Any], source: str) -> dict[str, str]:
    """What the cell that ends with a line puts out, by kind."""
    (cell,) = (cell for cell in cells if cell.source.endswith(source))
    if all(output.output_type == "stream" for output in cell.outputs):  # it comes in pieces
        return {"text/plain": "".join(output["text"] for output in cell.outputs)}
    (output,) = cell.outputs
    found: dict[str, str] = output["data"]
    return found


def test_it_is_kept_without_outputs() -> None:
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells)


def test_its_outputs_say_what_they_should(cells: list[Any]) -> None:
    answer = shown(cells, "\nweek")
    assert answer["text/html"].count("<svg") == 14  # two intervals a day
    assert "1997-03-07" in answer["text/plain"]
    assert (
        "all 14 intervals contain the true value for everybody"
        in shown(cells, "print(week.interval)")["text/plain"]
    )
    assert "Nothing was asked" in shown(cells, 'amount > 50")')["text/plain"]
    assert "people_high" in shown(cells, '"people_high")')["text/html"]
    for check in (".fetchall()[0][0] > 0", 'week.df()["people"][4]'):
        assert "True" in shown(cells, check)["text/plain"]
    assert "kappa" in shown(cells, "split()[1:4])")["text/plain"]


def test_an_error_is_a_line_and_a_hint_and_those_of_others_are_as_ever(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    shells = pytest.importorskip("IPython.core.interactiveshell")
    shell = shells.InteractiveShell(user_ns={"con": sparseq.create(None, {"t": ROWS}, user="who")})
    assert not shell.run_cell("con.sql('SELECT nonsense FROM t')").success
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines[0].startswith("QueryRefused: there is no column 'nonsense'")
    assert lines[1].startswith("  hint: ")
    assert len(lines) == 2
    assert not shell.run_cell("1 / 0").success
    assert "Traceback" in capsys.readouterr().out


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium is installed")
def test_a_browser_shows_the_answer_and_the_plot(cells: list[Any], tmp_path: Path) -> None:
    page = tmp_path / "notebook.html"
    outputs = [shown(cells, "\nweek")["text/html"], shown(cells, "week.plot()")["text/html"]]
    page.write_text(f"<!DOCTYPE html><html><body>{''.join(outputs)}</body></html>")
    seen = browse(page, tmp_path / "profile")
    assert seen.count("<svg") == 14
    assert "sandbox" in seen
    inside = tmp_path / "plot.html"
    text = html.unescape(outputs[1].partition('srcdoc="')[2].partition('"></iframe>')[0])
    inside.write_text(loosened(text, "document.title = 'shown';"))
    drawn = browse(inside, tmp_path / "another profile")
    assert "<title>shown</title>" in drawn
    assert drawn.count("<path") >= 4  # two series, each with its band
