"""Random steps of a life, as data: question, way, and arguments, valid or not."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import random
from dataclasses import dataclass
from functools import cache
from typing import Any

import click
import numpy as np

from checks.audit import wire
from checks.audit.neighbours import World
from checks.audit.queries import Questions
from checks.language import functions
from sparseq.cli.app import COMMANDS
from sparseq.cli.app import sparseq as command

WAYS = ("python", "python", "python", "cli", "http", "wire", "mcp")
STORE = "{store}"
"""In the arguments of a command: the store's path."""
ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    10**400,
    -(10**400),
    0.0,
    -0.5,
    5e-324,
    1e308,
    1e400,
    math.nan,
    "",
    " ",
    "x" * 5000,
    "\x00",
    "a\x00b",
    "\ud800",
    "é\u202e",
    "'",
    "; DROP TABLE t",
    "t",
    "{",
    "%s",
    b"",
    b"\xff\x00",
    [],
    [1],
    [[]],
    {},
    {"a": 1},
    (),
    ("t", "v"),
    {1, 2},
    1 + 2j,
    dt.date(1, 1, 1),
    dt.date(9999, 12, 31),
    dt.datetime(2024, 1, 1),
    dt.timedelta(1),
    decimal.Decimal("NaN"),
    decimal.Decimal("1e999"),
    np.float64("nan"),
    np.int64(3),
    np.array([1, 2]),
    object,
    len,
)
_TEXTS = tuple(x for x in ODD if isinstance(x, str))
_NUMBERS = (
    "0",
    "-1",
    "1",
    "0.5",
    "2",
    "1e400",
    "nan",
    "inf",
    "1e-300",
    "99999999999999999999",
    "x",
    "",
    "5%",
    "200%",
)
_SPOILS = (
    "(",
    ")",
    "*",
    ",",
    " SELECT ",
    " OVER () ",
    "::",
    "?",
    "$1",
    "/*",
    "--",
    "1e999",
    "(((((((" * 50,
    " NOT ",
    " = ANY ",
    "\n",
)
_ACCEPTED = (
    "application/json",
    "text/csv",
    "*/*",
    "text/html",
    "\x00",
    "application/vnd.apache.arrow.stream",
)
_KNOBS = {
    "sigma": (5.0, 1e-300, 1e300),
    "accuracy": (20.0, 1e-9),
    "precision": (0.05, 0.5, 1e-12),
    "price": (0.25, 4.0, 2.0**-10, 1024.0),
    "scale": (1.0, 30.0, 1e-200, 1e200),
    "confidence": (0.5, 0.9, 0.999999, 1e-12),
}


@dataclass(frozen=True)
class Action:
    """One step: the way in, the action, and its arguments."""

    way: str
    name: str
    given: tuple[Any, ...] = ()

    def __str__(self) -> str:
        text = ", ".join(_short(x) for x in self.given)
        return f"{self.way} {self.name}({text})"


def _short(x: Any) -> str:
    text = repr(x) if not (isinstance(x, int) and abs(x) > 10**30) else f"±10**{len(str(x)) - 1}"
    return text if len(text) < 2000 else f"{text[:60]}… ({len(text)} characters)"


class Steps:
    """Makes the steps of one life.

    Args:
        rng: Whence chance comes.
        world: Its tables.
        only: Ways that are gone, if not all.
    """

    def __init__(self, rng: random.Random, world: World, only: tuple[str, ...] = ()) -> None:
        self.rng = rng
        self.questions = Questions(rng, functions(), world.values(), rng.choice((1, 1, 2, 3)))
        self.people = [r["who"] for r in world.crowd["t"]] + [world.who, "nobody", 2**70]
        self.ways = tuple(way for way in WAYS if not only or way in only)
        self.way = "python"

    def next(self) -> Action:
        """Return the next step: mostly by the same way as the last, as each change restarts."""
        if self.rng.random() < 0.2 or self.way not in self.ways:
            self.way = self.rng.choice(self.ways)
        kind: Action = getattr(self, f"_{self.way}")()
        return kind

    # -- questions -------------------------------------------------------------------------------

    def sql(self) -> str:
        """Return a question: of the whole language, of a dashboard, or a spoilt one."""
        chance = self.rng.random()
        text = self.questions.question().sql if chance < 0.4 else self._dashboard()
        return self._spoilt(text) if chance > 0.9 else text

    def _dashboard(self) -> str:
        """Return one of a few questions: many follow from others, completely or in part."""
        rng = self.rng
        key, within = rng.choice(
            (
                ("k", "k IN (0, 1, 2)"),
                ("k", "k IN (0, 1, 2, 3) AND k <> 2"),
                ("k", ""),
                ("s", "s IN ('a', 'b')"),
                ("s", ""),
                ("b", ""),
                ("", ""),
                ("", ""),
                ("day", "day BETWEEN '2024-01-01' AND '2024-01-09'"),
                ("day", "day BETWEEN '2024-01-01' AND '2024-01-09' AND day <> '2024-01-03'"),
                ("date_trunc('week', day)", "day BETWEEN '2024-01-01' AND '2024-01-28'"),
                ("date_trunc('month', at)", "at BETWEEN '2024-01-01' AND '2024-03-31'"),
                ("k, s", ""),
                ("month(day)", ""),
                ("CASE WHEN n > 3 THEN 'x' ELSE 'y' END", ""),
            )
        )
        what = rng.choice(
            (
                "count(*)",
                "count(*)",
                "sum(n)",
                "avg(n)",
                "count(DISTINCT who)",
                "sum(x)",
                "avg(x)",
                "count(*), sum(least(greatest(n, 0), 9))",
                "stddev(least(greatest(x, 0), 10))",
                "100.0 * countif(b) / count(*)",
                "median(x, [0, 10, 50, 100])",
                "count(*) / count(DISTINCT who)",
                "sqrt(count(*) - 5000)",
                "ln(count(*))",
            )
        )
        also = rng.choice(("", "", "", "s = 'a'", "n < 5", "day >= '2024-01-05'", "k = 1"))
        where = " AND ".join(filter(None, (within, also)))
        text = f"SELECT {key + ', ' if key else ''}{what} FROM t"
        text += f" WHERE {where}" * bool(where) + f" GROUP BY {key}" * bool(key)
        return text + rng.choice(("", "", "", " ORDER BY 1 DESC LIMIT 2", " HAVING count(*) > 0"))

    def _spoilt(self, text: str) -> str:
        rng, at = self.rng, self.rng.randrange(len(text) + 1)
        other = rng.choice((*_TEXTS, *_SPOILS))
        cut, more, less = text[:at], text[:at] + other + text[at:], text[:at] + text[at + 3 :]
        return rng.choice((cut, more, less, other, text + " UNION ALL " + text))

    def knobs(self) -> dict[str, Any]:
        """Return options of a question: mostly none."""
        rng, found = self.rng, dict[str, Any]()
        if rng.random() < 0.3:
            name = rng.choice(list(_KNOBS))
            found[name] = rng.choice(_KNOBS[name]) if rng.random() < 0.7 else rng.choice(ODD)
        if rng.random() < 0.15:
            found["request_id"] = rng.choice(("r1", "r1", "r2", *ODD))
        if rng.random() < 0.2:
            found["fresh"] = True
        return found

    # -- ways in ---------------------------------------------------------------------------------

    def _python(self) -> Action:
        rng, odd = self.rng, self.rng.choice(ODD)
        made: list[tuple[int, str, tuple[Any, ...]]] = [
            (40, "sql", (self.sql(), self.knobs())),
            (6, "many", (tuple(self.sql() for _ in range(rng.randint(2, 5))),)),
            (5, "frame", (rng.randrange(10**6), self.knobs())),
            (5, "cursor", (self.sql(), None if rng.random() < 0.7 else odd)),
            (3, "explain", (self.sql(),)),
            (
                4,
                "parameters",
                (
                    "SELECT count(*) FROM t WHERE n > ? AND s = $name"
                    if rng.random() < 0.3
                    else f"SELECT count(*) FROM t WHERE {rng.choice(('n', 's', 'day', 'at'))} = ?",
                    rng.choice(([odd], {"name": odd}, [1, odd], odd)),
                ),
            ),
            (6, "ingest", (rng.randrange(10**6), rng.choice((None, None, "t", "v", odd)))),
            (4, "forget", (rng.choice(self.people),)),
            (3, "restart", ()),
            (1, "kill", ()),
            (
                3,
                "discover",
                (rng.choice(("SELECT s FROM t GROUP BY s", "SELECT w, who FROM t", self.sql())),),
            ),
            (2, "contribute", (rng.randrange(10**6), odd)),
            (6, "odd", (rng.randrange(10**6), odd, rng.choice(ODD))),
            (6, "look", (rng.randrange(10**6), rng.choice((1, 2, odd)))),
        ]
        (one,) = rng.choices(made, [weight for weight, *_ in made])
        return Action("python", one[1], one[2])

    def _cli(self) -> Action:
        rng = self.rng
        if rng.random() < 0.35:
            given = ["sql", STORE, self.sql(), "--format", rng.choice(("json", "csv", "table"))]
            return Action("cli", "run", tuple(given))
        path, one = rng.choice(_commands())
        given = [*path]
        for parameter in one.params:
            if isinstance(parameter, click.Argument):
                given += self._argument(parameter, path)
            elif rng.random() < 1.6 / len(one.params) and parameter.opts[0] != "--help":
                given.append(rng.choice(parameter.opts))
                if not getattr(parameter, "is_flag", False):
                    given.append(self._value(parameter))
        if path[:1] == ("curator",):
            given.insert(1, STORE)
        return Action("cli", "run", tuple(given))

    def _argument(self, parameter: click.Argument, path: tuple[str, ...]) -> list[str]:
        rng, name = self.rng, parameter.name or ""
        if rng.random() < 0.05:
            return []
        if name == "store":
            return [STORE] if rng.random() < 0.9 else [rng.choice(("nowhere", "", "rows.csv", "."))]
        if name in ("query", "sql"):
            return [self.sql() if path[0] != "keys" else "SELECT s FROM t GROUP BY s"]
        if name in ("ids", "id"):
            return [str(rng.choice(self.people))]
        return [self._value(parameter)]

    def _value(self, parameter: click.Parameter) -> str:
        rng, kind = self.rng, parameter.type
        if isinstance(kind, click.Choice) and rng.random() < 0.8:
            return str(rng.choice(list(kind.choices)))
        if isinstance(kind, click.Path) or rng.random() < 0.1:
            return rng.choice(("rows.csv", "out.json", "bad.csv", "nowhere/x", ".", "", "log.sql"))
        if "FLOAT" in repr(kind) or "INT" in repr(kind) or rng.random() < 0.2:
            return rng.choice(_NUMBERS)
        return rng.choice((*_TEXTS, "t", "k", "2024-01-01", "who", "10/day", "ada", "queries"))

    def _http(self) -> Action:
        rng = self.rng
        body: Any = (
            {"sql": self.sql()}
            | self.knobs()
            | (
                {rng.choice(("params", "precision", "x")): rng.choice(ODD)}
                if rng.random() < 0.2
                else {}
            )
        )
        if rng.random() < 0.5:
            path = rng.choice(("/v1/query", "/v1/query", "/v1/explain"))
            return self._request("POST", path, body)
        method, path = rng.choice(
            (
                ("GET", "/v1/catalog"),
                ("GET", "/v1/releases"),
                ("GET", "/v1/releases/1"),
                ("GET", "/v1/releases/99999999999999999999"),
                ("GET", "/v1/series"),
                ("GET", "/v1/budget"),
                ("GET", "/v1/jobs"),
                ("GET", "/v1/tokens"),
                ("POST", "/v1/tokens"),
                ("DELETE", "/v1/tokens/ada"),
                ("DELETE", "/v1/tokens/%00"),
                ("GET", "/v1/audit"),
                ("POST", "/v1/backup"),
                ("POST", "/v1/ingest"),
                ("POST", "/mcp"),
                ("GET", "/metrics"),
                ("GET", "/healthz"),
                ("GET", "/openapi.json"),
                ("GET", "/"),
                ("GET", "/curator"),
                ("GET", "/releases/1"),
                ("POST", "/sign-in"),
                ("POST", "/sign-out"),
                ("GET", "/%ff%00"),
                ("PATCH", "/v1/query"),
                ("POST", "/ask"),
                ("GET", "/ask"),
                ("GET", "/history"),
                ("GET", "/budget"),
            )
        )
        if rng.random() < 0.4:
            name = rng.choice(("last", "before", "contains", "release", "table", "format", "sql"))
            path += f"?{name}={rng.choice((*_NUMBERS, '%00', '%ff', 'a' * 3000, '2'))}"
        odd = {"name": rng.choice(ODD), "role": rng.choice(("curator", *ODD)), "quota": "1/day"}
        return self._request(method, path, rng.choice((odd, rng.choice(ODD), body)))

    def _request(self, method: str, path: str, body: Any) -> Action:
        rng = self.rng
        text = rng.choice(_TEXTS).encode("utf-8", "surrogatepass")
        data = json.dumps(body, default=str).encode() if rng.random() < 0.93 else text
        headers = {"accept": rng.choice(_ACCEPTED)} if rng.random() < 0.2 else {}
        if rng.random() < 0.1:
            headers["idempotency-key"] = rng.choice(("k", "x" * 500, " "))
        return Action("http", "request", (method, path, b"" if method == "GET" else data, headers))

    def _wire(self) -> Action:
        if self.rng.random() < 0.5:
            text = self.sql().replace("\x00", "")
            wrap = self.rng.choice(wire.WRAPS)
            return Action("wire", "query", (wrap.replace("{q}", text),))
        _, sent = wire.messages(self.rng, self.questions)
        return Action("wire", "messages", tuple(sent))

    def _mcp(self) -> Action:
        rng = self.rng
        tool = rng.choice(("tables", "explain", "ask", "ask", "answers", "answer", "x"))
        given: Any = {"sql": self.sql()} if tool in ("explain", "ask") else {}
        if rng.random() < 0.4:
            name = rng.choice(("sql", "precision", "request_id", "contains", "last", "release"))
            given |= {name: rng.choice(ODD)}
        message: Any = {
            "jsonrpc": "2.0",
            "id": rng.choice((1, *ODD)),
            "method": "tools/call",
            "params": {"name": tool, "arguments": given},
        }
        if rng.random() < 0.15:
            message[rng.choice(("id", "method", "params"))] = rng.choice(ODD)
        return Action("mcp", "message", (json.dumps(message, default=str),))


_LONG = ("serve", "mcp", "demo", "shell", "train", "plan", "monitor")  # they wait, or take minutes


@cache
def _commands() -> list[tuple[tuple[str, ...], click.Command]]:
    """Return the commands that end soon, by their words."""
    context = click.Context(command)

    def within(one: click.Command | None, path: tuple[str, ...]) -> list[Any]:
        if isinstance(one, click.Group):
            return [
                found
                for name in one.list_commands(context)
                if name not in ("train", "plan")
                for found in within(one.get_command(context, name), (*path, name))
            ]
        return [] if one is None else [(path, one)]

    names = [name for name in COMMANDS if name not in _LONG]
    return [one for name in names for one in within(command.get_command(context, name), (name,))]
