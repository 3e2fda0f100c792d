"""The files and functions that one question enters: python -m checks.walks [--list NAME]

    count     SELECT count(*) … WHERE, of a store of the default kind that was asked before
    group     two measures by a key
    repeat    the first one again
    tick      the third tick of a series with its own part of every budget
    http      the count, asked of a server
    command   the count, by `sparseq sql`: the store is opened, and the answer is shown

There is no limit on these counts. `--draw` writes the drawing in CONTRIBUTING.md from the last
walk.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import io
import json
import re
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import click
import httpx
import numpy as np
import pyarrow as pa

import sparseq
from sparseq.cli.app import sparseq as command
from sparseq.engine._duckdb import alone_check
from sparseq.pictures.tables import format_table
from sparseq.series import Monitor, QueryText, Ticks, series_of
from sparseq.server.http.app import application
from sparseq.server.service import Service
from sparseq.server.tokens import Role, Tokens

PACKAGE = str(Path(sparseq.__file__).parent) + "/"
CONTRIBUTING = Path(__file__).parent.parent / "CONTRIBUTING.md"
DRAWING = re.compile(r"^    sparseq sql STORE .*(?:\n    .*)*", re.MULTILINE)
FIRST = "SELECT sum(x) AS s FROM t WHERE x > 50", "SELECT count(*) AS n FROM t WHERE x > 11"
COUNT = "SELECT count(*) AS n FROM t WHERE x > 30"
GROUP = "SELECT kind, sum(x) AS s, avg(x) AS a FROM t WHERE x > 20 GROUP BY kind"
TICK = "SELECT count(*) AS n FROM t WHERE day = :day"
QUESTIONS = ("count", "group", "repeat", "tick", "http", "command")
STOPS: Mapping[str, str] = {
    "cli/sql.py sql": "reads the options",
    "question/plan.py Options.of": "noise and confidence, checked",
    "store/create.py connect": "opens the store",
    "store/_duckdb/open_file.py open_whole": "the file, whole or as it was before a kill",
    "load/_duckdb/storage.py Storage.catalog": "tables and columns, as they were declared",
    "ledger/_duckdb/ledger.py DuckLedger.__init__": "accounts, from the journal",
    "store/store.py Store.lower": "public facts alone; no row is read",
    "sql/parse.py parse": "text → sqlglot's tree, within the limits",
    "sql/select.py _Outer.lower": "the tree → a Query: typed, total terms",
    "language/expression_tree.py call": "one operation, with DuckDB's SQL",
    "stream/step.py Stream.ask": "Algorithm 2; from here on one transaction",
    "stream/step.py Stream.recorded": "asked before? then it is read back, free",
    "reuse/answer_cache.py Recall.release": "the same question, and nothing new",
    "stream/weighted_answer.py answer": "people are weighted; nobody is left out",
    "stream/shared_pilot_releases.py SharedPilotReleases.parents": "for many questions",
    "engine/_duckdb/engine.py DuckEngine.contributions": "rows → norms and sums, in integers",
    "base/cancellation.py interruptible": "a time-out ends it here, free",
    "compiled/__init__.py order_of": "Numba's loops, where there is much to do",
    "engine/_duckdb/reader.py Reader.read": "one SELECT → person, places, values",
    "engine/reduction.py reduce": "norms by person, sums by coordinate, in one pass",
    "stream/release_charges.py Bill.of": "what is left → what a person may add",
    "stream/release_charges.py Dues.admit": "the filter: who can pay is in, and pays",
    "mechanisms/gaussian.py rounded_gaussian": "exact noise, from the operating system",
    "accounting/pilots/choice.py choose": "pilots: noised people by norm → C",
    "stream/released_parts.py ReleasedParts.weigh": "sums under w = min(1, C a / norm), noised",
    "accounting/pilots/pilot_interval.py interval": "what was cut, and the ±: of everybody",
    "released/render.py render": "noised integers → columns and intervals",
    "ledger/_duckdb/ledger.py DuckLedger.commit": "charges, answer, notes: durable together",
    "cli/show.py encode": "only now the answer leaves",
    "answers/answer_texts.py answer_table": "as many digits as the ± allows",
    "pictures/tables.py format_table": "rows and columns, as lines of text",
}
"""What the drawing shows, each in a few words: a file, and a function that the question enters."""
Walk = dict[tuple[str, str], int]
"""Files and functions, as they were entered; each with the number of `STOPS` that called it."""


class Tracer:
    """Notes every function of the package that is entered, in all threads that begin within."""

    def __init__(self) -> None:
        self._walk: Walk | None = None

    def __enter__(self) -> Tracer:
        self._before = sys.getprofile()
        sys.setprofile(self._note)
        threading.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)
        threading.setprofile(None)

    @contextlib.contextmanager
    def walk(self) -> Iterator[Walk]:
        """Record the functions that are entered in the block."""
        self._walk = walk = {}
        try:
            yield walk
        finally:
            self._walk = None

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if self._walk is None or event != "call" or not (place := place_of(frame)):
            return
        if place not in self._walk and not any(map(is_import, islice(callers(frame), 2))):
            self._walk[place] = sum(map(is_stop, callers(frame)))


def place_of(frame: FrameType) -> tuple[str, str] | None:
    """Return the file and the function of a frame; None: it is not of the package."""
    code = frame.f_code
    if not code.co_filename.startswith(PACKAGE):
        return None
    return code.co_filename.removeprefix(PACKAGE), code.co_qualname


def callers(frame: FrameType) -> Iterator[FrameType]:
    """Yield the frames that a frame was called by."""
    above = frame.f_back
    while above is not None:
        yield above
        above = above.f_back


def is_import(frame: FrameType) -> bool:
    """Return True for a frame of Python's import system, whose calls are not part of a walk."""
    return frame.f_code.co_filename.startswith("<frozen importlib")


def is_stop(frame: FrameType) -> bool:
    """Tell whether the drawing shows a frame's function."""
    return " ".join(place_of(frame) or ()) in STOPS


def walks() -> dict[str, Walk]:
    """Return the walk of each question, on stores on disk."""
    found: dict[str, Walk] = {}
    alone_check.SHARE = 0.0  # the check of somebody alone comes by the clock
    with tempfile.TemporaryDirectory() as folder, Tracer() as tracer:
        with made(f"{folder}/python") as con:
            for sql in FIRST:
                con.sql(sql)
            for name, sql in {"count": COUNT, "group": GROUP, "repeat": COUNT}.items():
                with tracer.walk() as found[name]:
                    con.sql(sql)
        with made(f"{folder}/ticks", purposes=[sparseq.Purpose("n", 0.5, 5)]) as con:
            ticks = Ticks(dt.datetime(2024, 3, 1), "1d", dt.datetime(2024, 3, 5))
            done = Monitor(con, ticks, [series_of(con, "n", QueryText.of(TICK), ticks)]).run()
            next(done), next(done)
            with tracer.walk() as found["tick"]:
                next(done)
        found["http"] = asyncio.run(served(made(f"{folder}/http"), tracer))
        made(f"{folder}/command").close()
        for sql in (*FIRST, COUNT):
            with tracer.walk() as found["command"], silence():
                command.main(["sql", f"{folder}/command", sql], standalone_mode=False)
    return found


def made(path: str, **more: Any) -> sparseq.Store:
    """Make a store of 3,000 people."""
    draw = np.random.default_rng(1)
    number = 20_000
    day = np.datetime64("2024-01-01") + draw.integers(0, 300, number)
    rows = pa.table(
        {
            "who": draw.integers(0, 3_000, number),
            "x": draw.uniform(0, 100, number),
            "kind": draw.choice(["a", "b", "c"], number),
            "day": pa.array(day.astype("datetime64[D]")),
        }
    )
    return sparseq.create(
        path,
        {"t": rows},
        user="who",
        time="day",
        seed=1,
        bounds={"x": (0, 100)},
        keys={"kind": ["a", "b", "c"]},
        **more,
    )


async def served(store: sparseq.Store, tracer: Tracer) -> Walk:
    """Return the walk of a question that a client asks over HTTP."""
    service = Service(store, Tokens(None))
    head = {"Authorization": f"Bearer {service.tokens.create('ada', Role.ANALYST)}"}
    here = httpx.ASGITransport(application(service))
    async with httpx.AsyncClient(transport=here, base_url="http://here", headers=head) as client:
        for sql in (*FIRST, COUNT):
            with tracer.walk() as walk:
                answer = await client.post("/v1/query", json={"sql": sql})
            answer.raise_for_status()
    await service.close()
    return walk


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Suppress the output of the block."""
    nowhere = io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        yield


def sizes(walk: Walk) -> tuple[int, int]:
    """Return how many files and functions a walk enters."""
    return len({file for file, _ in walk}), len(walk)


def drawing(walk: Walk) -> str:
    """Return a question's way as text: each of `STOPS` in the order in which it was entered."""
    lines = ['sparseq sql STORE "SELECT count(*) … WHERE …"']
    for (file, function), above in walk.items():
        if said := STOPS.get(f"{file} {function}"):
            place = file.removesuffix(".py") + "." + function.removesuffix(".__init__")
            lines.append(f"{'  ' * (above + 1) + place:<55} {said}")
    return "\n".join("    " + line for line in lines)


def drawn() -> str:
    """Return the drawing that CONTRIBUTING.md has."""
    (drawing,) = DRAWING.findall(CONTRIBUTING.read_text("utf-8"))
    return str(drawing)


@click.command()
@click.option("--list", "name", type=click.Choice(QUESTIONS), help="Show the files of one.")
@click.option("--draw", is_flag=True, help="Put the drawing into CONTRIBUTING.md.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object.")
def main(name: str | None, draw: bool, as_json: bool) -> None:
    """Count the files and functions that questions enter."""
    found = walks()
    files = sorted(file for file, _ in found[name]) if name else []
    for file in dict.fromkeys(files):
        click.echo(f"{file:44} {files.count(file):4}")
    if draw:
        text = CONTRIBUTING.read_text("utf-8").replace(drawn(), drawing(found["command"]))
        CONTRIBUTING.write_text(text, "utf-8")
    rows = [[one, *(f"{n}" for n in sizes(walk))] for one, walk in found.items()]
    click.echo(format_table(["", "files", "functions"], rows, list("lrr")))
    if as_json:
        entered = [f"{file} {function}" for file, function in found["command"]]
        every = {"sizes": {one: sizes(walk) for one, walk in found.items()}, "entered": entered}
        click.echo(json.dumps(every | {"drawing": drawing(found["command"])}))


if __name__ == "__main__":
    main()
