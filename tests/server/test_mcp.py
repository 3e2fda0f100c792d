"""Agents: tools that look are free, answers carry their intervals in words, errors their hints."""

from __future__ import annotations

import asyncio
import datetime as dt
import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sampled import one_in
from server.made import made, person
from server.running import ROOT, Running, secret

import sparseq
from sparseq.server import mcp
from sparseq.server.mcp import TOOLS, handle
from sparseq.server.service import Service
from sparseq.server.tokens import Tokens

COUNT = "SELECT count(*) AS n FROM t"


def talked(*messages: Any, store: Any = None) -> list[Any]:
    """What a service of a small store answers to messages of one agent, one after the other."""

    async def main() -> list[Any]:
        tokens = Tokens(None)
        service = Service(store or made(), tokens)
        who = person(tokens, "agent")
        found = []
        for number, message in enumerate(messages):
            if isinstance(message, dict):
                message = json.dumps({"jsonrpc": "2.0", "id": number} | message)
            response = await handle(service, who, message)
            found.append(None if response is None else json.loads(response))
        await service.close()
        return found

    return asyncio.run(main())


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": name, "arguments": arguments}}


def test_it_says_who_it_is_and_what_it_can() -> None:
    begun, listed, pong = talked(
        {"method": "initialize", "params": {"protocolVersion": "2025-06-18"}},
        {"method": "tools/list"},
        {"method": "ping"},
    )
    assert begun["result"]["protocolVersion"] == "2025-06-18"
    told = " ".join(begun["result"]["instructions"].split())
    assert "Never report x without its interval" in told
    tools = {tool["name"]: tool for tool in listed["result"]["tools"]}
    assert set(tools) == set(TOOLS)
    assert [n for n, t in tools.items() if not t["annotations"]["readOnlyHint"]] == ["ask"]
    assert pong["result"] == {}


def test_bounds_of_dates_are_dates() -> None:
    days = [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]
    rows = pa.table({"who": [1, 2], "day": days, "x": [1.5, 2.5]})
    bounds = {"day": (dt.date(2022, 1, 1), dt.date(2024, 12, 31)), "x": (0, 7)}
    store = sparseq.create(None, {"t": rows}, user="who", seed=1, bounds=bounds)
    (looked,) = talked(call("tables"), store=store)
    (table,) = looked["result"]["structuredContent"]["tables"]
    found = {column["name"]: column["bounds"] for column in table["columns"]}
    assert found == {"who": None, "day": ["2022-01-01", "2024-12-31"], "x": [0, 7]}
    assert "18993" not in looked["result"]["content"][0]["text"]


def test_an_answer_has_its_interval_in_words() -> None:
    looked, explained, asked, listed, again = [
        response["result"]
        for response in talked(
            call("tables"),
            call("explain", sql=COUNT),
            call("ask", sql=COUNT, request_id="k"),
            call("answers", contains="COUNT"),
            call("answer", release=1),
        )
    ]
    assert looked["structuredContent"]["tables"][0]["table"] == "t"
    assert "Nothing was asked, nothing charged." in explained["content"][0]["text"]
    text = asked["content"][0]["text"]
    assert "interval" in text
    assert "95 % confidence" in text
    assert "NOT PRIVATE" in text
    assert "charged for it and its pilots: 2.3125 each at most" in text
    assert set(asked["structuredContent"]["rows"][0]) == {"n", "n_error", "n_low", "n_high"}
    assert listed["structuredContent"]["answers"] == [{"release": 1, "query": COUNT}]
    assert again["structuredContent"] == asked["structuredContent"]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (call("ask", sql="SELECT * FROM t"), "use an aggregate"),
        (call("answer", release=9), "no release 9"),
    ],
)
def test_a_tools_error_is_told_to_the_agent(message: Any, said: str) -> None:
    (response,) = talked(message)
    assert response["result"]["isError"] is True
    assert said in response["result"]["content"][0]["text"]


@pytest.mark.parametrize(
    ("message", "said"),
    one_in(
        2,
        [
            (call("ask"), "sql is missing"),
            (call("ask", sql=COUNT, precision="fine"), "precision is 'fine'"),
            (call("ask", sql=COUNT, precision=True), "precision is True"),
            (call("ask", sql=COUNT, precision=0), "precision is 0"),
            (call("ask", sql=[COUNT]), "sql is ['SELECT"),
            (call("ask", sql="\ud800"), "characters that no text can have"),
            (call("ask", sql=COUNT, request_id="k" * 201), "request_id is 'kkk"),
            (call("ask", sql=COUNT, prize=3), "no field 'prize'"),
            (call("answers", last="abc"), "last is 'abc'"),
            (call("answers", last=0), "last is 0"),
            (call("answers", last=10**200), "last is 1000"),
            (call("answers", contains=["x"]), "contains is ['x']"),
            (call("answer", release="x"), "release is 'x'"),
            (call("answer", release=1.0), "release is 1.0"),
            (call("tabels"), "did you mean 'tables'?"),
            ({"method": "tools/call", "params": {"name": ["ask"]}}, "no tool"),
            (
                {"method": "tools/call", "params": {"name": "ask", "arguments": [1]}},
                "not a JSON object",
            ),
            ({"method": "tools/call", "params": [1]}, "params is not an object"),
        ],
    ),
)
def test_what_no_tool_takes_is_refused(message: Any, said: str) -> None:
    (response,) = talked(message)
    assert response["error"]["code"] == -32602
    assert said in response["error"]["message"]


@pytest.mark.parametrize(
    ("message", "code"),
    one_in(
        2,
        [
            (b"\xff{}", -32700),
            ('{"id": 1, "id": 2, "method": "ping"}', -32700),
            ('{"id": NaN, "method": "ping"}', -32700),
            ("[" * 100_000, -32700),
            ('{"id": 1, "method": "ping", "params": ' + "[" * 70 + "]" * 70 + "}", -32700),
            ('{"id": ' + "1" * 5000 + ', "method": "ping"}', -32700),
            ('{"id": {}, "method": "ping"}', -32600),
            ('{"id": true, "method": "ping"}', -32600),
            ('{"id": 1, "method": ["ping"]}', -32600),
            ("7", -32600),
            ("null", -32600),
        ],
    ),
)
def test_what_is_no_message_is_refused(message: Any, code: int) -> None:
    (response,) = talked(message)
    assert response["error"]["code"] == code


def test_a_bug_is_told_as_one_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any) -> Any:
        raise KeyError("secret")

    monkeypatch.setitem(mcp.TOOLS, "tables", replace(TOOLS["tables"], run=broken))
    failed, pong = talked(call("tables"), {"method": "ping"})
    assert failed["error"]["code"] == -32603
    assert "secret" not in json.dumps(failed)
    assert pong["result"] == {}


def test_a_line_that_is_too_long_is_passed_over() -> None:
    async def answer(line: bytes) -> str:
        return line.decode().strip()

    given = b"one\n" + b"x" * (2 * mcp.MOST_LINE + 7) + b"\ntwo\n\n"
    out = io.StringIO()
    asyncio.run(mcp.over_lines(answer, io.BytesIO(given), out))
    first, refused, last = out.getvalue().splitlines()
    assert (first, last) == ("one", "two")
    assert json.loads(refused)["error"]["code"] == -32600


def test_what_is_no_request() -> None:
    assert talked('{"jsonrpc": "2.0", "method": "notifications/initialized"}') == [None]
    broken, listed, unknown = talked("{", "[]", {"method": "server/discover"})
    assert broken["error"]["code"] == -32700
    assert listed["error"]["code"] == -32600
    assert unknown["error"]["code"] == -32601


def test_an_agent_has_a_quota_of_its_own() -> None:
    *some, last = talked(*[call("ask", sql=f"{COUNT} WHERE x > {i}") for i in range(15)])
    assert [one["result"]["isError"] for one in some] == [False] * 14
    assert "left of the quota" in last["result"]["content"][0]["text"]


@pytest.mark.deep
def test_by_standard_input_and_over_http(tmp_path: Path) -> None:
    """In processes of their own; the messages are those of the tests beside it."""
    pytest.importorskip("uvicorn")
    path = tmp_path / "s.sparseq"
    made(path).close()
    lines = '{"id": 1, "method": "tools/call", "params": {"name": "answers", "arguments": '
    lines += '{"last": "abc"}}}\n\xff\n' + "".join(
        json.dumps({"jsonrpc": "2.0", "id": k} | message) + "\n"
        for k, message in enumerate([{"method": "initialize"}, call("ask", sql=COUNT)])
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT), "SPARSEQ_TOKEN": secret(path, "agent")}

    def spoken(*options: str) -> list[Any]:
        command = [sys.executable, "-m", "sparseq", "mcp", *options]
        done = subprocess.run(
            command, input=lines.encode("latin-1"), capture_output=True, env=environment, check=True
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    wrong, broken, begun, asked = spoken(str(path))
    assert (wrong["error"]["code"], broken["error"]["code"]) == (-32602, -32700)
    assert begun["result"]["serverInfo"]["name"] == "sparseq"
    assert asked["result"]["structuredContent"]["release"] == 1
    running = Running(path)
    wrong, broken, begun, asked = spoken("--server", running.url)
    assert (wrong["error"]["code"], broken["error"]["code"]) == (-32602, -32700)
    assert asked["result"]["isError"] is False
    assert running.stop() == 0
    assert {one["error"]["code"] for one in spoken("--server", running.url)} == {-32603, -32700}
