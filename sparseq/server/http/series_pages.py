"""Pages of series: their latest values and figures, and a form with which a curator begins one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from sparseq.answers.answer import Answer
from sparseq.answers.answer_texts import answer_table
from sparseq.base.errors import ParameterError, QueryRefused, ServerError, SparseqError, Why
from sparseq.question.catalog import Catalog
from sparseq.server.fields import InputField, InputType
from sparseq.server.http import markup
from sparseq.server.http.curator_endpoints import NAME
from sparseq.server.http.endpoints import Call, Endpoint
from sparseq.server.http.page_parts import CURATOR, said_of, series_figure, show, to
from sparseq.server.http.read_endpoints import series_data
from sparseq.server.kept_jobs import SeriesJob
from sparseq.server.tokens import Role
from sparseq.sql.parse import identifier

_TICKS, _FEW = 200, 30  # the latest ticks of a series: on its own page, and among others
_DRAWN = 8  # series on one page; more are in the table
_TEXT = InputField(InputType.TEXT, most=63, default="")
_NEW = {
    "name": _TEXT,
    "sql": InputField(InputType.TEXT, default=""),
    "every": InputField(
        InputType.TEXT, default="1d", choices=tuple(value for value, _ in markup.EVERY)
    ),
    "first": _TEXT,
    "last": _TEXT,
    "wait": InputField(InputType.WHOLE, 0, 9999),
    "share": InputField(InputType.NUMBER, 0, 99, over=True),
    "anyway": InputField(InputType.FLAG, default=False),
}


async def series(call: Call) -> Response:
    """The series: their latest values, and figures of the last ticks."""
    found = series_data(call.service)
    few = [one["ticks"][-(_FEW if k < _DRAWN else 1) :] for k, one in enumerate(found)]
    read = await _answers(call, [tick["release"] for ticks in few for tick in ticks])

    def drawn() -> tuple[list[tuple[object, ...]], list[Markup]]:
        rows: list[tuple[object, ...]] = []
        tiles: list[Markup] = []
        for k, (one, ticks) in enumerate(zip(found, few, strict=True)):
            name, last = one["series"], ticks[-1]
            link = markup.series_link(name)
            value = _value(read[last["release"]])
            rows.append((link, f"{len(one['ticks']):,}", last["tick"], value))
            answers = [read[tick["release"]] for tick in ticks]
            figure = series_figure([t["tick"] for t in ticks], answers, f"s{k}")
            if figure and k < _DRAWN:
                tiles.append(markup.tile(f"s{k}", link, figure))
        return rows, tiles

    rows, tiles = await asyncio.to_thread(drawn)
    there = {one["series"] for one in found}
    begun = [job.name for job in call.service.jobs if job.kind == "series"]
    waits = [name for name in begun if name not in there]
    body = markup.series(rows, tiles, call.who.role is Role.CURATOR, waits)
    return show(call, "Series", body, "/series")


async def one_series(call: Call) -> Response:
    """One series: its last ticks as a figure and a table."""
    name = call.given["name"]
    ticks = next((s["ticks"] for s in series_data(call.service) if s["series"] == name), None)
    if ticks is None:
        raise ServerError(Why.ABSENT, f"there is no series {name[:60]!r}")
    last = ticks[-_TICKS:]
    read = await _answers(call, [tick["release"] for tick in last])
    found = [read[tick["release"]] for tick in last]
    figure = await asyncio.to_thread(series_figure, [t["tick"] for t in last], found)
    return show(call, name, markup.one_series(name, last, figure), "/series")


async def new_series(call: Call) -> Response:
    """The form that begins a series; with `?sql=` its forecast."""
    said = verdict = Markup()
    if call.given["sql"].strip():
        try:
            job = _job(call.given)
            told = await call.service.expected(call.who, job)
            verdict = markup.series_verdict(told, not job.last, call.given["share"])
        except SparseqError as error:
            said = _refusal(error)
    return _form(call, said, verdict)


async def begin(call: Call) -> Response:
    """Begin a series."""
    try:
        await call.service.begin_series(call.who, _job(call.given))
    except (ParameterError, QueryRefused) as error:
        return _form(call, _refusal(error), Markup(), 422)
    return to("/series")


async def end(call: Call) -> Response:
    """Ask no further tick of a series; its answers stay."""
    await call.service.end_series(call.who, call.given["name"])
    return to("/curator")


SERIES_PAGES = (
    Endpoint("GET", "/series", series),
    Endpoint(
        "GET",
        "/series/{name:path}",
        one_series,
        path_fields={"name": InputField(InputType.TEXT, needed=True)},
    ),
    Endpoint("GET", "/new-series", new_series, CURATOR, query=_NEW),
    Endpoint("POST", "/new-series", begin, CURATOR, form=_NEW),
    Endpoint("POST", "/end-series", end, CURATOR, form=NAME),
)


def _job(given: Mapping[str, Any]) -> SeriesJob:
    """Return the series that a form describes; raise `ParameterError`."""
    if not given["first"]:
        raise ParameterError("the first day is missing", "give the day on which it begins")
    share = (given["share"] or 0) / 100
    return SeriesJob(
        given["name"],
        given["sql"],
        given["first"],
        given["every"],
        given["last"],
        f"{given['wait'] or 0}h",
        share,
        anyway=given["anyway"],
    )


def _form(call: Call, said: Markup, verdict: Markup, status: int = 200) -> Response:
    body = markup.new_series(call.given, _example(call.service.catalog), said, verdict)
    return show(call, "Begin a series", body, "/series", status)


def _refusal(error: SparseqError) -> Markup:
    """Return the reason why a series can't be begun; hints about commands name the form's own
    field.
    """
    command, anyway, _ = error.hint.partition("; or say --anyway")
    if not isinstance(error, QueryRefused) or not (anyway or "sparseq purpose add" in command):
        return said_of(error)
    if "sparseq purpose add" in command:
        command = "give it its own part of the budget, or let it ask less often"
    return markup.problem(
        error.message, f"{command}; or choose “{markup.ANYWAY}”" if anyway else command
    )


def _example(catalog: Catalog) -> str:
    table = next((one for one in catalog.private if one.time), None)
    if table is None:
        return "SELECT count(*) AS n FROM … WHERE day >= :day AND day < :next_day"
    time = identifier(table.time)
    return (
        f"SELECT count(*) AS n FROM {identifier(table.name)} "
        f"WHERE {time} >= :day AND {time} < :next_day"
    )


async def _answers(call: Call, numbers: list[int]) -> dict[int, Answer]:
    """Return recorded answers, by number."""
    return {number: await call.service.release(call.who, number) for number in numbers}


def _value(found: Answer) -> str:
    """Return the answer of a tick in a line."""
    texts = answer_table(found.arrow())
    if len(texts.rows) != 1:
        return f"{len(texts.rows):,} groups"
    pairs = zip(texts.columns, texts.rows[0], strict=True)
    return ", ".join(f"{name} {text.strip()}" for name, text in pairs)
