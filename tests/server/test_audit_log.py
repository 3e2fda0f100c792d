"""The audit log: whoever changes a line is found out; what was lost is written later."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path

import pytest
from server.made import made, person

from sparseq.base.errors import StoreError
from sparseq.server import audit as module
from sparseq.server.audit import FIRST, MOST_TEXT, AuditFilter, AuditLog
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
    log = AuditLog(path)
    log.add([{"what": "asked"}])  # which goes on from the last line, and mends nothing
    with pytest.raises(StoreError, match="does not follow"):
        log.verify()


def test_two_processes_write_to_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    one, other = three(path), AuditLog(path)
    for log in (other, one, other, other, one):
        log.add([{"what": "asked"}])
    assert one.verify() == other.verify()
    assert one.verify().lines == 8


def filled(path: Path, lines: int = 100) -> AuditLog:
    """A log of several files; what all lines add up to is their number."""
    log = AuditLog(path, most=1000)
    for k in range(1, lines + 1):
        log.add([{"what": "asked", "who": "ada", "k": k}])
        if log.full:
            log.turn({"k": k})
    return log


def names(path: Path) -> list[str]:
    return sorted(one.name for one in path.parent.iterdir())


def test_a_large_log_is_several_files_of_one_chain(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = filled(path)
    files = names(path)
    assert len(files) > 10
    assert all(one.stat().st_size < 1600 for one in tmp_path.iterdir())
    chain = log.verify()
    assert chain == AuditLog(path).verify()
    assert (chain.first, chain.lines) == (1, 100 + len(files) - 1)
    lines = list(log.lines())
    assert [line["n"] for line in lines] == list(range(1, chain.lines + 1))
    assert [line["k"] for line in lines if line["what"] == "asked"] == list(range(1, 101))
    for last in (1, 7, 8, 30, 1000):
        assert log.latest(last) == lines[::-1][:last]


@pytest.mark.parametrize("k", [0, 3, -1])
def test_what_is_changed_in_any_file_shows(tmp_path: Path, k: int) -> None:
    log = filled(tmp_path / "log")
    file = [tmp_path / f"log.{n}" for n in range(1, len(names(tmp_path / "log")))][k]
    file.write_text(file.read_text().replace('"k": ', '"k": 1', 1))
    with pytest.raises(StoreError, match="does not follow"):
        log.verify()
    if k:
        file.unlink()
        with pytest.raises(StoreError, match="does not follow"):
            log.verify()


def test_the_earliest_files_may_be_put_away(tmp_path: Path) -> None:
    path = tmp_path / "log"
    whole = filled(path).verify()
    for number in (1, 2, 3):
        (tmp_path / f"log.{number}").rename(tmp_path / f"away{number}")
    log = AuditLog(path)
    chain = log.verify()
    assert (chain.lines, chain.last) == (whole.lines, whole.last)
    assert chain.first == next(log.lines())["n"] > 1
    log.add([{"what": "asked"}])
    assert log.verify().lines == whole.lines + 1
    first = tmp_path / "log.4"
    first.write_text(first.read_text().replace('"k": ', '"k": 1', 1))
    with pytest.raises(StoreError, match="does not follow"):
        log.verify()


def test_to_begin_no_more_is_read_than_the_last_sum(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = filled(path)
    since = list(log.since_sum())
    assert since[0]["what"] == "sum"
    assert [line["what"] for line in since[1:]] == ["asked"] * (len(since) - 1)
    assert since[0]["k"] + len(since) - 1 == 100
    *_, last = (tmp_path / f"log.{n}" for n in range(1, len(names(path))))
    path.unlink()  # killed after the file was put aside, before the next was begun
    again = AuditLog(path)
    again.add([{"what": "asked", "k": 0}])
    assert again.verify().lines == json.loads(last.read_text().splitlines()[-1])["n"] + 1
    assert [one["what"] for one in again.since_sum()].count("sum") == 1
    assert list(again.since_sum())[-1]["k"] == 0


def test_another_process_finds_the_next_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    one, other = AuditLog(path, most=1), AuditLog(path)
    for k in range(5):
        other.add([{"what": "token made", "k": k}])
        one.add([{"what": "asked", "k": k}])
        one.turn({"k": k})
    assert len(names(path)) == 6
    assert other.verify() == one.verify()
    assert one.verify().lines == 15


def test_a_log_in_memory_keeps_its_chain(tmp_path: Path) -> None:
    log = AuditLog(None, most=1)
    log.add([{"what": "asked"}] * 3)
    log.turn({})
    log.add([{"what": "asked"}])
    chain = log.verify()
    assert (chain.first, chain.lines) == (4, 5)


def test_long_texts_are_cut_and_say_so(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "log")
    log.add([{"what": "refused", "query": "é" * 1_000_000, "source": "x" * MOST_TEXT}])
    (line,) = log.latest(1)
    assert line["query"].endswith("é… (1,000,000 letters)")
    assert len(line["query"]) < MOST_TEXT + 30
    assert line["source"] == "x" * MOST_TEXT
    log.verify()


@pytest.mark.parametrize("torn", [b"", b'{"n": 4, "wh', b"x" * 200_000])
@pytest.mark.parametrize("long", [10, 70_000])
def test_lines_are_read_from_the_end(tmp_path: Path, torn: bytes, long: int) -> None:
    """Lines shorter and longer than a block, written by an earlier version, and a torn one."""
    path = tmp_path / "log"
    chain, data = FIRST, b""
    for k in range(1, 5):
        text = json.dumps({"n": k, "query": "x" * long})
        chain = hashlib.sha256(f"{chain}{text}".encode()).hexdigest()
        data += f'{text[:-1]}, "hash": "{chain}"}}\n'.encode()
    path.write_bytes(data + torn)
    log = AuditLog(path)
    assert [line["n"] for line in log.latest(3)] == [4, 3, 2]
    assert log.latest(9) == list(log.lines())[::-1]
    log.add([{"what": "asked"}])
    assert log.verify().lines == 5


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
    assert (asked["who"], asked["release"], asked["price"]) == ("ada", 1, 2.3125)
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


def test_a_page_goes_on_over_files_and_says_where(tmp_path: Path) -> None:
    """Each line is on one page, whichever are wanted and however far is looked at once."""
    log = filled(tmp_path / "log")
    assert len(names(tmp_path / "log")) > 3
    log.add([{"what": "asked", "who": "bob"}])
    for wanted, there in ((AuditFilter(), 101), (AuditFilter("ada"), 100), (AuditFilter("bob"), 1)):
        found, before = [], None
        for _ in range(40):
            page = log.page(wanted, before, 7)
            found += [line["n"] for line in page.lines]
            before = page.earlier
            if before is None:
                break
        assert before is None
        assert len(found) == there
        assert found == sorted(set(found), reverse=True)


def test_a_page_looks_at_so_many_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_LOOKED", 10)
    log = filled(tmp_path / "log")
    page = log.page(AuditFilter("bob"), None, 7)
    newest = log.latest(1)[0]["n"]
    assert (page.lines, page.earlier) == ([], newest - 9)
