"""Twelve changes that people make, each done in the one file that the map names, to a copy.

Each has a script that fails on the package as it is, and ends well on the changed copy.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from repository.test_map import ROOT, ROWS

SHOP = """
import pyarrow as pa, sparseq
rows = pa.table({"who": [i % 50 for i in range(1000)], "x": [float(i % 7) for i in range(1000)]})
def shop(place=None, source=rows, **more):
    source = {"t": source} if source is rows else source
    return sparseq.create(place, source, user="who", seed=1, bounds={"x": (0, 7)}, **more)
def told(*words):
    from click.testing import CliRunner
    from sparseq.cli.app import sparseq as main
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == 0, done.output
    return done.stdout
"""
SERVED = """
import asyncio, httpx
from sparseq.server.http.app import application
from sparseq.server.service import Service
from sparseq.server.tokens import Role, Tokens
def served(check):
    async def main():
        service = Service(shop(), Tokens(None))
        secret = service.tokens.create("ada", Role.CURATOR)
        here = httpx.ASGITransport(application(service))
        head = {"Authorization": f"Bearer {secret}"}
        async with httpx.AsyncClient(transport=here, base_url="http://h", headers=head) as client:
            try:
                await check(client)
            finally:
                await service.close()
    asyncio.run(main())
"""


@dataclass(frozen=True)
class Change:
    """One change.

    Attributes:
        row: What the map calls it.
        file: The one file that is edited.
        edits: Text that stands in it once, and what is put in its place.
        works: A script that fails without the feature.
        imports: Put before all else in the file, after what it imports from `__future__`.
    """

    row: str
    file: str
    edits: tuple[tuple[str, str], ...]
    works: str
    imports: str = ""


CHANGES = {
    "function": Change(
        "a scalar SQL function",
        "sparseq/language/functions/doubles.py",
        (
            (
                '_add("pow", "pow({0}, {1})", (N, N),',
                "_EVEN = I.rising_rule(lambda x: np.copysign(2 * np.ceil(np.abs(x) / 2), x))\n"
                '_add("even", "even({0})", (N,), T.DOUBLE, "even({0})", _IEEE, rule=_EVEN)\n'
                '_add("pow", "pow({0}, {1})", (N, N),',
            ),
        ),
        SHOP
        + """
count = "SELECT count(*) AS n FROM t WHERE "
assert shop().sql(count + "even(x) > 0").value() == shop().sql(count + "x > 0").value()
plain, after = (
    shop().sql(sql).rows()[0]
    for sql in (
        "SELECT even(count(*)) AS c FROM t",
        "SELECT even(n) AS c FROM (SELECT count(*) AS n FROM t)",
    )
)
assert plain == after
assert plain["c_low"] < plain["c"] < plain["c_high"]
""",
    ),
    "endpoint": Change(
        "an address of HTTP",
        "sparseq/server/http/app.py",
        (
            (
                "ENDPOINTS = (\n",
                "async def number(call: Call) -> Response:\n"
                '    """Return how many answers there are."""\n'
                '    return as_json({"answers": len(call.service.latest)})\n\n\n'
                'ENDPOINTS = (\n    Endpoint("GET", "/v1/number", number),\n',
            ),
        ),
        SHOP
        + SERVED
        + """
async def check(client):
    await client.post("/v1/query", json={"sql": "SELECT count(*) FROM t"})
    assert (await client.get("/v1/number")).json() == {"answers": 1}
    assert "get" in (await client.get("/openapi.json")).json()["paths"]["/v1/number"]
    assert (await client.get("/v1/number", headers={"Authorization": ""})).status_code == 401
served(check)
""",
    ),
    "audit field": Change(
        "a field of the audit log",
        "sparseq/server/quota_desk.py",
        (
            (
                '{"release": answer.facts.release, "price": paid}',
                '{"release": answer.facts.release, "price": paid,'
                ' "values": answer.facts.coordinates}',
            ),
        ),
        SHOP
        + SERVED
        + """
async def check(client):
    await client.post("/v1/query", json={"sql": "SELECT count(*), sum(x) FROM t"})
    (line,) = [line for line in (await client.get("/v1/audit")).json() if line["what"] == "asked"]
    assert line["values"] == 2
served(check)
""",
    ),
    "kind of file": Change(
        "a kind of file that is read",
        "sparseq/load/open_sources.py",
        (
            (
                "KINDS: Mapping[str, FileKind] = {\n",
                "class OrcFile(ArrowSource):\n"
                '    """ORC."""\n\n'
                "    def __init__(self, path: Path) -> None:\n"
                "        self._file = pyarrow.orc.ORCFile(path)\n"
                "        super().__init__(path.name, self._file.schema)\n\n"
                "    def _batches(self, columns: Sequence[str]) -> Iterable[pa.RecordBatch]:\n"
                "        yield from self._file.read(columns=list(columns)).to_batches()\n\n\n"
                "KINDS: Mapping[str, FileKind] = {\n"
                '    "orc": FileKind(OrcFile, (0, b"ORC"), (".orc",)),\n',
            ),
        ),
        SHOP
        + """
import os, pyarrow.orc
os.mkdir("rows")
for k in (0, 1):
    pyarrow.orc.write_table(rows.slice(500 * k, 500), f"rows/{k}.orc")
sums = "SELECT count(*) AS n, sum(x) AS s FROM t"
assert shop(source={"t": "rows"}).sql(sums).rows() == shop().sql(sums).rows()
os.rename("rows/0.orc", "odd.csv")
try:
    shop(source="odd.csv")
except sparseq.DataError as error:
    assert "it holds orc" in str(error)
else:
    raise AssertionError
""",
        "import pyarrow.orc\nfrom sparseq.load.file_sources import ArrowSource\n",
    ),
    "option": Change(
        "an option of a question, everywhere",
        "sparseq/question/plan.py",
        (
            (
                "    interval: str | None = _option(\n",
                '    miss: float | None = _option("How often a ± may miss.", "PART", share=True)\n'
                "    interval: str | None = _option(\n",
            ),
            (
                "        sure = self.confidence\n",
                "        if self.miss is not None:\n"
                '            object.__setattr__(self, "confidence", 1 - self.miss)\n'
                "        sure = self.confidence\n",
            ),
            (
                "    interval: str | None\n    at_least_useful: bool\n",
                "    miss: float | None\n    interval: str | None\n    at_least_useful: bool\n",
            ),
        ),
        SHOP
        + """
import json
from sparseq.server.fields import OPTION_FIELDS
with shop("s") as con:
    assert con.sql("SELECT count(*) FROM t", miss=0.25).facts.confidence == 0.75
    said = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(miss => 0.5) sum(x) FROM t"
    assert con.sql(said).facts.confidence == 0.5
assert "--miss PART" in told("sql", "--help")
asked = "SELECT count(*) AS n FROM t WHERE x > 1"
assert json.loads(told("sql", "s", asked, "--miss", "20%", "--format", "json"))["confidence"] == 0.8
assert "How often" in OPTION_FIELDS["miss"].about
""",
    ),
    "default confidence": Change(
        "a default",
        "sparseq/base/defaults.py",
        (("CONFIDENCE = 0.95\n", "CONFIDENCE = 0.75\n"),),
        SHOP
        + """
answer = shop().sql("SELECT count(*) AS n FROM t")
assert answer.facts.confidence == 0.75
sure = shop().sql("SELECT count(*) AS n FROM t", confidence=0.95)
width = lambda a: a.rows()[0]["n_high"] - a.rows()[0]["n_low"]
assert width(answer) < 0.7 * width(sure)
assert "[default: 0.75]" in told("sql", "--help")
from sparseq.cli.create import guarantee_lines
assert "(75 %)" in dict(guarantee_lines(shop()))["noise"]
from sparseq.series.derive import NoisySeries
assert NoisySeries.of([1.0], 2.0).confidence == 0.75
""",
    ),
    "strategy": Change(
        "a family of strategies",
        "sparseq/accounting/strategies.py",
        (
            (
                "FAMILIES: dict[",
                "def flat(height: float, band: float) -> Floats:\n"
                '    """Return 1, -A, …, -A."""\n'
                "    return np.concatenate(([1.0], np.full(_band(band), -height)))\n\n\n"
                "FAMILIES: dict[",
            ),
            (
                '    "news": (news,',
                '    "flat": (flat, (0.25, 2.0)),\n    "news": (news,',
            ),
        ),
        """
import sparseq
from sparseq.accounting.strategies import HINT, Strategy
assert Strategy.of("flat").text == "1,-0.25,-0.25"
assert Strategy.of("flat:0.5,1").text == "1,-0.5"
assert sparseq.Purpose("s", 0.5, 6, strategy="flat").strategy == "flat"
try:
    Strategy.of("flatt")
except sparseq.ParameterError as error:
    assert "flat:0.25,2" in str(error)
""",
    ),
    "hint": Change(
        "queries that a hint suggests",
        "sparseq/sql/suggestion_rules/constants.py",
        (
            (
                '@rule("^give it once", same=True)\n',
                '@rule("^a quantile lies between 0 and 1$", same=True)\n'
                "def share(refusal: Refusal) -> Iterator[str]:\n"
                '    """Write percent as a share."""\n'
                '    yield re.sub(r"(?<=, )\\d+(?=[,)])", lambda n: f"{int(n[0]) / 100:g}",'
                " refusal.text)\n\n\n"
                '@rule("^give it once", same=True)\n',
            ),
        ),
        SHOP
        + """
try:
    shop().sql("SELECT quantile_cont(x, 75) AS q FROM t")
except sparseq.QueryRefused as error:
    _, _, offered = str(error).partition("Try: ")
assert offered == "SELECT quantile_cont(x, 0.75) AS q FROM t", offered
assert shop().sql(offered).rows()
""",
    ),
    "figure": Change(
        "a figure of the monitor's page",
        "sparseq/series/series_figures.py",
        (
            (
                '    return Sheet(", ".join(series) or "watch", drawn)\n',
                "    for (name, column), of in found.items():\n"
                '        wide = [row | {"value": row["error"], "error": 0.0} for row in of]\n'
                '        drawn.append(Figure(f"± of {name}: {column}", [_series("±", wide)]))\n'
                '    return Sheet(", ".join(series) or "watch", drawn)\n',
            ),
        ),
        """
import datetime as dt
from sparseq.accounting import Budget
from sparseq.series.series_figures import monitor_sheet
from sparseq.pictures.page import html_page
from sparseq.pictures.terminal import terminal_chart
from sparseq.series.series_rows import Row, as_table, schema_of
rows = [Row("buyers", dt.date(2024, 1, k), "n", 10.0, 1.5 * k) for k in (1, 2, 3)]
sheet = monitor_sheet(as_table(rows, schema_of([], dates=True)), Budget(0.5, 40), {}, False, None)
assert sheet.figures[-1].title == "± of buyers: n"
assert sheet.figures[-1].series[0].values.tolist() == [1.5, 3.0, 4.5]
assert "± of buyers: n" in html_page(sheet)
""",
    ),
    "column of history": Change(
        "a column of `history`",
        "sparseq/store/release_facts.py",
        (
            (
                "RELEASE_FACTS: Mapping[str, Callable[[Release, Answer], Any]] = {\n",
                "RELEASE_FACTS: Mapping[str, Callable[[Release, Answer], Any]] = {\n"
                '    "highest_price": lambda _, answer: answer.facts.price,\n',
            ),
        ),
        SHOP
        + """
import csv, json
with shop("s") as con:
    con.sql("SELECT count(*) AS n FROM t", price=0.5)
assert json.loads(told("history", "s", "--format", "json"))[0]["highest_price"] == 0.5
(line,) = csv.DictReader(told("history", "s", "--format", "csv").splitlines())
assert line["highest_price"] == "0.5"
table = told("history", "s")
assert "highest price" in table and "sigma" in table
""",
    ),
    "limit": Change(
        "a limit on what a query may cost",
        "sparseq/question/limits.py",
        (
            (
                '    Limit("selects", 64, "SELECTs", "ask for its parts one by one"),\n',
                '    Limit("selects", 1, "SELECTs", "ask for its parts one by one"),\n',
            ),
        ),
        SHOP
        + """
assert shop().sql("SELECT count(*) AS n FROM t").rows()
try:
    shop().sql("SELECT sum(m) AS s FROM (SELECT who, max(x) AS m FROM t GROUP BY who)")
except sparseq.QueryRefused as error:
    assert "2 SELECTs; the limit is 1" in str(error), error
else:
    raise AssertionError
""",
    ),
    "name of files": Change(
        "a name of files that are written",
        "sparseq/base/file_formats.py",
        (('    ".csv": "csv",\n', '    ".csv": "csv",\n    ".comma": "csv",\n'),),
        SHOP
        + """
with shop("s"):
    pass
told("sql", "s", "SELECT count(*) AS n FROM t", "-o", "n.comma")
assert open("n.comma").readline().startswith("n,")
""",
    ),
}
FAST = {"function"}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, with what Python has compiled."""
    place = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "sparseq", place / "sparseq")
    return place


def run(copy: Path, script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in an empty folder, on the copy of the package."""
    folder.mkdir()
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(copy), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[] if name in FAST else [pytest.mark.deep],
        )
        for name in CHANGES
    ],
)
def test_the_one_file_of_the_map_is_enough(name: str, copy: Path, tmp_path: Path) -> None:
    change = CHANGES[name]
    file = copy / change.file
    before = file.read_text("utf-8")
    assert run(copy, change.works, tmp_path / "before").returncode != 0
    after = before
    for old, new in change.edits:
        assert after.count(old) == 1, old
        after = after.replace(old, new)
    head = "from __future__ import annotations\n"
    file.write_text(after.replace(head, head + change.imports, 1), "utf-8")
    try:
        done = run(copy, change.works, tmp_path / "after")
    finally:
        file.write_text(before, "utf-8")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", CHANGES)
def test_the_map_names_one_file_for_it(name: str) -> None:
    change = CHANGES[name]
    (where,) = [where for what, where, _ in ROWS if what == change.row]
    named = re.findall("`([^`]+)`", where)
    assert change.file in named
    assert named == [change.file]
