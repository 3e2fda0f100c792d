"""README and docs: every example runs as written, and every link leads somewhere."""

from __future__ import annotations

import gzip
import importlib.util
import re
import runpy
import shlex
from itertools import islice
from pathlib import Path

import click
import pyarrow as pa
import pytest
from click.testing import CliRunner

from sparseq import create
from sparseq.cli.app import sparseq
from sparseq.pictures.guarantee_texts import course_text

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


_NEEDS = {"networks.md": "torch", "lake.md": "deltalake"}
"""Pages whose examples need an extra."""
_LONG = {"tutorial.md", "planning.md", "dashboards.md", "start.md", "networks.md"}
"""Pages that take long: among the deep tests."""


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=pytest.mark.deep) if p.name in _LONG else p for p in PAGES],
    ids=_name,
)
def test_examples_run_as_written(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page.name in _NEEDS:
        pytest.importorskip(_NEEDS[page.name])
    (tmp_path / "data").symlink_to(ROOT / "data")
    (tmp_path / "queries").mkdir()
    for path in (ROOT / "queries").iterdir():
        (tmp_path / "queries" / path.name).symlink_to(path)
    _shorten(tmp_path / "queries" / "cdnow_log.jsonl.gz")
    script = "\n".join(_script(kind, body) for kind, body in _BLOCK.findall(page.read_text()))
    if not script:
        pytest.skip("no examples on this page")
    monkeypatch.chdir(tmp_path)
    exec(compile(script, page.name, "exec"), {"__name__": "__main__", "run": _run})


def _shorten(log: Path, lines: int = 60) -> None:
    """Have the first questions of a long log in its place."""
    with gzip.open(log, "rt") as whole:
        first = list(islice(whole, lines))
    log.unlink()
    with gzip.open(log, "wt") as short:
        short.writelines(first)


def _run(line: str) -> None:
    """Run `sparseq …` with nothing to read, in this process: that is faster than one of its own."""
    if line.startswith("python -m "):
        runpy.run_module(shlex.split(line)[2], run_name="__main__")
        return
    done = CliRunner().invoke(sparseq, shlex.split(line)[1:], input="", prog_name="sparseq")
    assert done.exit_code == 0, (line, done.output, done.exception)


def _script(kind: str, body: str) -> str:
    """Return a block as Python: console lines `$ sparseq …` become calls."""
    if kind == "python":
        return body
    lines = [line[2:] for line in body.splitlines() if line.startswith("$ ")]
    assert lines, "a console block has lines that start with $"
    assert all(line.startswith(("sparseq ", "python -m data.")) for line in lines)
    return "\n".join(f"run({line!r})" for line in lines)


@pytest.mark.deep
def test_every_option_of_every_command_is_in_the_reference() -> None:
    """The page is made when the site is; here its maker is asked, and each command's help."""
    pytest.importorskip("griffe")
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    page = "\n".join(hooks.described(sparseq, click.Context(sparseq)))
    parts = dict(
        re.findall(r"^## (sparseq[\w ]+)\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    )
    assert len(parts) > 40
    for name, part in parts.items():
        words = [*name.split()[1:], "--help"]
        said = CliRunner().invoke(sparseq, words, prog_name="sparseq").output
        options = set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", said, re.MULTILINE))
        assert [option for option in options if option not in part] == [], name


def test_how_far_a_budget_goes_is_quoted_as_create_prints_it() -> None:
    """It follows from the budget alone, whatever rows there are."""
    table = pa.table({"customer_id": [1, 2]})
    with create(None, {"purchases": table}, user="customer_id") as con:
        course = con.promise.course_facts()
    assert course is not None
    wanted, start = course_text(course), (ROOT / "docs" / "start.md").read_text()
    assert " ".join(wanted.split()) in " ".join(start.split())
    for page in PAGES:
        for told in re.findall(r"about (\d+) more questions", " ".join(page.read_text().split())):
            assert f"about {told} more questions" in wanted, page


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_theorems_and_code_name_each_other() -> None:
    """Where a docstring names a theorem's page, the page names that file or a class in it."""
    folder = ROOT / "docs" / "theorems"
    rows = (folder / "README.md").read_text().splitlines()
    named: dict[str, list[bool]] = {page.name: [] for page in folder.glob("*.md")}
    del named["README.md"]
    for file in (ROOT / "sparseq").rglob("*.py"):
        path, code = str(file.relative_to(ROOT / "sparseq")), file.read_text()
        classes = re.findall(r"^class (\w+)", code, re.MULTILINE)
        for name in set(re.findall(r"docs/theorems/([\w-]+\.md)", code)):
            row = next(row for row in rows if f"({name})" in row)
            text = (folder / name).read_text() + row
            named[name].append(path in text or any(re.search(rf"`{c}\b", text) for c in classes))
    assert [name for name, found in named.items() if not any(found)] == []


def test_files_named_in_the_guarantee_exist() -> None:
    text = (ROOT / "docs" / "guarantee.md").read_text()
    named = re.findall(r"`([a-z]+/[\w/]+\.py)`", text)
    assert len(named) > 80
    for path in named:
        assert (ROOT / ("" if path.startswith("tests/") else "sparseq") / path).exists(), path


def test_every_theorem_has_a_line_in_the_list_and_its_code_and_tests_exist() -> None:
    folder = ROOT / "docs" / "theorems"
    listed = re.findall(r"\]\(([\w-]+\.md)\)", (folder / "README.md").read_text())
    pages = [page.name for page in folder.glob("*.md") if page.name != "README.md"]
    assert sorted(listed) == sorted(pages)
    tests = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)
    }
    code = "\n".join(file.read_text() for file in (ROOT / "sparseq").rglob("*.py"))
    for page in folder.glob("*.md"):
        text = page.read_text()
        for path in re.findall(r"`(?:sparseq/|tests/)?[\w/]+\.py`", text):
            path = path.strip("`")
            roots = (ROOT, ROOT / "sparseq", ROOT / "tests" / "accounting")
            assert any((root / path).exists() for root in roots), f"{page.name}: {path}"
        for name in re.findall(r"`(test_\w+)`", text):
            assert name in tests, f"{page.name}: {name}"
        for name in re.findall(r"`([A-Z][A-Za-z]+)(?:\([^`]*\))?`", text):
            assert re.search(rf"^class {name}\b", code, re.MULTILINE), f"{page.name}: {name}"
