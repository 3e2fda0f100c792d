"""The audit log: whoever changes a line is found out; what was lost is written later."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from server.made import made, person

from sparseq.errors import StoreError
from sparseq.server.audit import AuditLog
from sparseq.server.service import Service, Statement
from sparseq.server.tokens import Tokens


def three(path: Path) -> AuditLog:
    log = AuditLog(path)
    log.add([{"what": "asked", "who": "ada", "query": 'a "quoted", "hash": "x"'}])
    log.add([{"what": "asked", "who": "bob"}, {"what": "refused", "who": "é\n"}])
    return log


def test_lines_follow_from_each_other(tmp_path: Path) -> None:
    log = three(tmp_path / "log")
    chain = log.verify()
    assert chain.lines == 3
    assert [line["n"] for line in log.lines()] == [1, 2, 3]
    assert AuditLog(tmp_path / "log").verify() == chain


@pytest.mark.parametrize("change", ["edit", "drop", "swap", "insert", "renumber"])
def test_what_was_changed_shows(tmp_path: Path, change: str) -> None:
    path = tmp_path / "log"
    three(path)
    lines = path.read_text().splitlines(keepends=True)
    if change == "edit":
        lines[1] = lines[1].replace("bob", "eve")
    elif change == "drop":
        del lines[1]
    elif change == "swap":
        lines[0], lines[1] = lines[1], lines[0]
    elif change == "insert":
        lines.insert(1, lines[0])
    else:
        lines[2] = lines[2].replace('"n": 3', '"n": 4')
    path.write_text("".join(lines))
    with pytest.raises(StoreError, match="does not follow"):
        AuditLog(path).verify()
    with pytest.raises(StoreError, match="does not follow"):
        AuditLog(path).add([{"what": "asked"}])


def test_two_processes_write_to_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    one, other = three(path), AuditLog(path)
    for log in (other, one, other, other, one):
        log.add([{"what": "asked"}])
    assert one.verify() == other.verify()
    assert one.verify().lines == 8


def test_a_torn_line_is_taken_off(tmp_path: Path) -> None:
    path = tmp_path / "log"
    three(path)
    path.write_bytes(path.read_bytes() + b'{"n": 4, "wh')
    log = AuditLog(path)
    log.add([{"what": "asked"}])
    assert log.verify().lines == 4


def test_who_asked_what_and_what_the_log_lacked(tmp_path: Path) -> None:
    tokens, log = Tokens(None), AuditLog(tmp_path / "log")
    ada = person(tokens, "ada")
    con = made()

    async def main() -> None:
        service = Service(con, tokens, audit=log)
        await service.ask(ada, Statement("SELECT count(*) AS n FROM t", request_id="k"))
        await service.ask(ada, Statement("SELECT count(*) AS n FROM t", request_id="k"))
        with pytest.raises(Exception, match="release rows"):
            await service.ask(ada, Statement("SELECT * FROM t"))
        await service.close()

    asyncio.run(main())
    asked, again, refused, _ = log.lines()
    assert (asked["who"], asked["release"], asked["price"]) == ("ada", 1, 1.3125)
    assert (again["repeat"], again["price"]) == (True, 0.0)
    assert (refused["what"], refused["why"]) == ("refused", "QueryRefused")
    assert "rows" not in json.dumps([asked, again, refused]).replace("release rows", "")


def test_an_answer_that_the_log_lacks_is_noted(tmp_path: Path) -> None:
    store = tmp_path / "s.sparseq"
    made(store).close()
    tokens, log = Tokens(None), AuditLog.beside(store)
    with_answer = made(tmp_path / "other.sparseq")
    with_answer.sql("SELECT count(*) AS n FROM t")

    async def main() -> None:
        await Service(with_answer, tokens, audit=log).close()

    asyncio.run(main())
    found = next(log.lines())
    assert (found["what"], found["release"]) == ("found", 1)
