"""The same question at every door: the same rows, columns, types, notes and refusals.

Three stores of one seed draw the same noise: one is asked in Python, one by the command line, and
one is served, over HTTP, PostgreSQL's protocol and MCP in turn: one of these asks first, the others
read back what it was told.
"""

from __future__ import annotations

import json
import math
import re
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from server.running import Running
from sql import shop
from sql.pairs import PAIRS
from sql.test_sql_docs import CALLS, EXAMPLES, REFUSED, store_of_the_page

import sparseq
from sparseq.base.errors import SparseqError
from sparseq.base.json_text import json_text
from sparseq.cli.app import sparseq as command_line
from sparseq.server.mcp import MOST_ROWS
from sparseq.server.tokens import Quota, Role, Tokens

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
pytest.importorskip("uvicorn")

FREE = "these are the declared values"
CALL = "SELECT count(*) AS n FROM purchases JOIN sizes USING (quantity) WHERE ({}) IS NULL"
OF_THE_SHOP = [asked for asked, _ in PAIRS.values()]
OF_THE_PAGE = [one.removeprefix(REFUSED).strip().rstrip(";") for one in EXAMPLES]
OF_THE_PAGE += [CALL.format(call) for call in CALLS]
STORES: Mapping[str, tuple[Callable[[Path | None], sparseq.Store], Sequence[str]]] = {
    "shop": (lambda path: shop.store(path=path), OF_THE_SHOP),
    "page": (lambda path: store_of_the_page("seed=1, ", path), OF_THE_PAGE),
}


@dataclass(frozen=True)
class Said:
    """What a door says: an answer or a refusal.

    Attributes:
        rows: Of an answer, by column, as JSON writes them.
        notes: With an answer, in any order.
        refused: In the words of the refusal; "": it is answered.
        most: Rows that the door shows at most.
    """

    rows: Any = None
    notes: tuple[str, ...] = ()
    refused: str = ""
    most: int | None = None


def plain(value: Any) -> Any:
    """Return a value as JSON has it; a driver has Python's values of the same types."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Decimal):
        return int(value) if value.as_tuple().exponent == 0 else str(value)
    return value if isinstance(value, str | int | float | None) else str(value)


def words(error: SparseqError) -> str:
    return f"{error.message} {error.hint}".strip()


def plain_words(text: str) -> str:
    """Return a refusal without what a terminal puts between its message and its hint."""
    return " ".join(re.findall(r"\w+", text.replace("hint: ", "").lower()))


class Python:
    """`con.sql`, of a store in memory."""

    def __init__(self, con: sparseq.Store) -> None:
        self.con = con

    def ask(self, sql: str) -> Said:
        try:
            answer = self.con.sql(sql)
        except SparseqError as error:
            return Said(refused=words(error))
        return Said(plain(json.loads(json_text(answer.rows()))), tuple(answer.facts.notes))


class Commands:
    """`sparseq sql`, of a store in a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def ask(self, sql: str) -> Said:
        done = CliRunner().invoke(
            command_line, ["sql", self.path, "-", "--format", "json"], input=sql
        )
        if done.exit_code:
            return Said(refused=done.stderr)
        found = json.loads(done.stdout)
        return Said(plain(found["rows"]), tuple(found.get("notes", ())))


class Http:
    """`POST /v1/query`."""

    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        head = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            "Accept": "application/json",
        }
        sent = urllib.request.Request(self.url + path, json.dumps(body).encode(), head)
        try:
            with urllib.request.urlopen(sent) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def ask(self, sql: str) -> Said:
        code, found = self.post("/v1/query", {"sql": sql})
        if code != 200:
            told = found["error"] if isinstance(found.get("error"), dict) else found
            return Said(refused=f"{told['message']} {told.get('hint') or ''}".strip())
        return Said(plain(found["rows"]), tuple(found.get("notes", ())))


class Agent(Http):
    """The tool `ask` of MCP."""

    def ask(self, sql: str) -> Said:
        call = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "ask", "arguments": {"sql": sql}},
        }
        _, found = self.post("/mcp", call)
        result = found["result"]
        (text,) = (one["text"] for one in result["content"])
        if result["isError"]:
            return Said(refused=text)
        return Said(plain(result["structuredContent"]["rows"]), (text,), most=MOST_ROWS)


@dataclass
class Postgres:
    """A session of PostgreSQL's protocol, with the columns of intervals."""

    url: str
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.con = psycopg.connect(self.url, autocommit=True)
        self.con.add_notice_handler(lambda notice: self.told.append(notice.message_primary))
        self.con.execute("SET sparseq.columns = 'interval'")

    def ask(self, sql: str) -> Said:
        self.told.clear()
        try:
            cursor = self.con.execute(sql.encode())
        except psycopg.Error as error:
            told = error.diag
            return Said(refused=f"{told.message_primary} {told.message_hint or ''}".strip())
        names = [column.name for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        return Said(plain(rows), tuple(self.told))


@dataclass(frozen=True)
class Doors:
    """Every door to stores of one seed; the first is held against."""

    python: Python
    others: Mapping[str, Any]

    def differences(self, number: int, sql: str) -> list[str]:
        """Return what doors say of a question that Python does not."""
        first, found = self.python.ask(sql), list[str]()
        served = [name for name in self.others if name != "command line"]
        turn = number % len(served)
        for name in ["command line", *served[turn:], *served[:turn]]:
            if told := apart(first, self.others[name].ask(sql)):
                found.append(f"{name}: {told}\n    {sql}")
        return found


def apart(first: Said, other: Said) -> str:
    """Return in what two doors differ; "": in nothing.

    Looking around over PostgreSQL's protocol is free, and says so; elsewhere it is refused.
    """
    if first.refused and any("nothing was charged" in n or FREE in n for n in other.notes):
        return ""
    if bool(first.refused) != bool(other.refused):
        return f"{first.refused or 'answered'!r} in Python, here {other.refused or 'answered'!r}"
    if first.refused:
        wanted, told = (plain_words(one.refused) for one in (first, other))
        same = wanted in told
        return "" if same else f"refused with {wanted!r} in Python, here with {told!r}"
    if first.rows[: other.most] != other.rows:
        return f"rows {first.rows!r:.300} in Python, here {other.rows!r:.300}"
    told = " ".join(" ".join(other.notes).split())
    missing = [note for note in first.notes if " ".join(note.split()) not in told]
    return f"without the notes {missing}" if missing else ""


@pytest.fixture(scope="module", params=STORES)
def doors(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Doors, Sequence[str]]]:
    """Stores of one seed, and what they are asked."""
    made, questions = STORES[request.param]
    folder = tmp_path_factory.mktemp("doors")
    for name in ("command", "served"):
        made(folder / f"{name}.sparseq").close()
    served = folder / "served.sparseq"
    tokens = Tokens.beside(served)
    token = tokens.create("ada", Role.ANALYST, Quota(a_day=10**6))
    tokens.close()
    running = Running(served, "--pg", "127.0.0.1:0")
    try:
        address = running.pg.replace("postgresql://", f"postgresql://ada:{token}@", 1)
        others = {
            "command line": Commands(folder / "command.sparseq"),
            "HTTP": Http(running.url, token),
            "PostgreSQL": Postgres(f"{address}/served"),
            "MCP": Agent(running.url, token),
        }
        yield Doors(Python(made(None)), others), questions
    finally:
        running.kill()


def test_some_questions_have_one_answer(doors: tuple[Doors, Sequence[str]]) -> None:
    door, questions = doors
    found = [one for n, sql in enumerate(questions[::40]) for one in door.differences(n, sql)]
    assert not found, "\n".join(found)


@pytest.mark.deep
def test_every_question_has_one_answer(doors: tuple[Doors, Sequence[str]]) -> None:
    door, questions = doors
    found = [one for n, sql in enumerate(questions) for one in door.differences(n, sql)]
    assert len(OF_THE_SHOP) + len(OF_THE_PAGE) >= 500
    assert not found, f"{len(found)} differences\n" + "\n".join(found)
