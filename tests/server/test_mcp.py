"""Agents: tools that look are free, answers carry their intervals in words, errors their hints."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from server.made import made, person
from server.running import ROOT, Running, secret

from sparseq.server.mcp import TOOLS, handle
from sparseq.server.service import Service
from sparseq.server.tokens import Tokens

COUNT = "SELECT count(*) AS n FROM t"


def talked(*messages: Any) -> list[Any]:
    """What a service of a small store answers to messages of one agent, one after the other."""

    async def main() -> list[Any]:
        tokens = Tokens(None)
        service = Service(made(), tokens)
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
        {"method": "tools/list"}, {"method": "ping"},
    )  # fmt: skip
    assert begun["result"]["protocolVersion"] == "2025-06-18"
    assert "Never report x without its interval" in begun["result"]["instructions"]
    tools = {tool["name"]: tool for tool in listed["result"]["tools"]}
    assert set(tools) == set(TOOLS)
    assert [n for n, t in tools.items() if not t["annotations"]["readOnlyHint"]] == ["ask"]
    assert pong["result"] == {}


def test_an_answer_has_its_interval_in_words() -> None:
    looked, explained, asked, listed, again = [
        response["result"]
        for response in talked(
            call("tables"), call("explain", sql=COUNT), call("ask", sql=COUNT, request_id="k"),
            call("answers", contains="COUNT"), call("answer", release=1),
        )
    ]  # fmt: skip
    assert looked["structuredContent"]["tables"][0]["table"] == "t"
    assert "Nothing was asked, nothing charged." in explained["content"][0]["text"]
    text = asked["content"][0]["text"]
    assert "interval" in text
    assert "95 % confidence" in text
    assert "NOT PRIVATE" in text
    assert "charged for it, 1 each at most" in text
    assert set(asked["structuredContent"]["rows"][0]) == {"n", "n_error", "n_low", "n_high"}
    assert listed["structuredContent"]["answers"] == [{"release": 1, "query": COUNT}]
    assert again["structuredContent"] == asked["structuredContent"]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (call("ask", sql="SELECT * FROM t"), "use an aggregate"),
        (call("ask"), "sql is missing"),
        (call("ask", sql=COUNT, precision="fine"), "precision"),
        (call("ask", sql=COUNT, prize=3), "takes sql"),
        (call("answer", release="x"), "release"),
        (call("answer", release=9), "no release 9"),
        (call("tabels"), "did you mean 'tables'?"),
    ],
)
def test_a_tools_error_is_told_to_the_agent(message: Any, said: str) -> None:
    (response,) = talked(message)
    assert response["result"]["isError"] is True
    assert said in response["result"]["content"][0]["text"]


def test_what_is_no_request() -> None:
    assert talked('{"jsonrpc": "2.0", "method": "notifications/initialized"}') == [None]
    broken, listed, unknown = talked("{", "[]", {"method": "server/discover"})
    assert broken["error"]["code"] == -32700
    assert listed["error"]["code"] == -32600
    assert unknown["error"]["code"] == -32601


def test_an_agent_has_a_quota_of_its_own() -> None:
    *some, last = talked(*[call("ask", sql=f"{COUNT} WHERE x > {i}") for i in range(16)])
    assert [one["result"]["isError"] for one in some] == [False] * 15
    assert "left of the quota" in last["result"]["content"][0]["text"]


def test_by_standard_input_and_over_http(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    path = tmp_path / "s.sparseq"
    made(path).close()
    lines = "".join(
        json.dumps({"jsonrpc": "2.0", "id": k} | message) + "\n"
        for k, message in enumerate([{"method": "initialize"}, call("ask", sql=COUNT)])
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT), "SPARSEQ_TOKEN": secret(path, "agent")}

    def spoken(*options: str) -> list[Any]:
        command = [sys.executable, "-m", "sparseq", "mcp", *options]
        done = subprocess.run(
            command, input=lines, capture_output=True, text=True, env=environment, check=True
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    begun, asked = spoken(str(path))
    assert begun["result"]["serverInfo"]["name"] == "sparseq"
    assert asked["result"]["structuredContent"]["release"] == 1
    running = Running(path)
    begun, asked = spoken("--server", running.url)
    assert asked["result"]["isError"] is False
    assert running.stop() == 0
