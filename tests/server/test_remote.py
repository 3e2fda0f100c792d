"""A served store is asked as an open one; SIGTERM leaves nothing half done."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from server.made import made
from server.running import Running, secret

import sparseq
from sparseq.base.errors import NotSql, ParameterError, QueryRefused, ServerError, StoreInUse, Why
from sparseq.cli.app import sparseq as command_line

pytest.importorskip("uvicorn")
COUNT = "SELECT count(*) AS n FROM t"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served") / "s.sparseq"
    made(path).close()
    return path


@pytest.fixture(scope="module")
def served(store: Path) -> Iterator[Running]:
    running = Running(store)
    yield running
    running.kill()


@pytest.fixture(scope="module")
def token(store: Path) -> str:
    return secret(store, "ada")


def test_it_has_the_face_of_a_store(served: Running, token: str) -> None:
    alone = made()
    with sparseq.connect(served.url, token=token) as con:
        assert con.tables == alone.tables
        assert con.catalog.table("t").column("x").bounds == (0, 7)
        assert con.guarantee == alone.guarantee
        asked = con.sql("SELECT count(*) AS n FROM t WHERE x > $x", {"x": 3}, request_id="k")
        there = alone.sql("SELECT count(*) AS n FROM t WHERE x > $x", {"x": 3})
        assert asked.arrow().equals(there.arrow())
        assert (
            con.sql("SELECT count(*) AS n FROM t WHERE x > 3.0", request_id="other").facts.release
            >= 1
        )
        assert con.release(1).to_bytes() == asked.to_bytes()
        assert con.releases()[0]["release"] == 1
        assert con.explain(COUNT).facts["charged"] is False
        assert "Nothing was asked" in repr(con.explain(COUNT))


def test_errors_are_those_of_a_store(served: Running, token: str) -> None:
    with sparseq.connect(served.url, token=token) as con:
        with pytest.raises(QueryRefused, match="release rows"):
            con.sql("SELECT * FROM t")
        with pytest.raises(NotSql):
            con.sql("SELEC")
        with pytest.raises(ParameterError):
            con.sql(COUNT, sigma=-1)
        with pytest.raises(ServerError) as error:
            con.release(999)
        assert error.value.why is Why.ABSENT
    with pytest.raises(ServerError) as error:
        sparseq.connect(served.url, token="sq_wrong").sql(COUNT)
    assert error.value.why is Why.SIGN_IN


def test_others_are_told_where_it_is_served(served: Running, store: Path) -> None:
    with pytest.raises(StoreInUse, match=served.url):
        sparseq.connect(store)


@pytest.mark.parametrize(
    ("url", "token"),
    [
        ("http://example.org", "sq_x"),
        ("https://", "sq_x"),
        ("https://a:b@example.org", "sq_x"),
        ("https://example.org", ""),
        ("https://example.org", "sq_x\r\nHost: y"),
    ],
)
def test_odd_addresses(url: str, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARSEQ_TOKEN", raising=False)
    with pytest.raises(ParameterError):
        sparseq.connect(url, token=token)


def test_the_command_line_asks_a_server(
    served: Running, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARSEQ_TOKEN", token)
    asked = CliRunner().invoke(command_line, ["sql", "--server", served.url, COUNT])
    assert asked.exit_code == 0
    assert "release" in asked.stdout
    refused = CliRunner().invoke(command_line, ["sql", "--server", served.url, "SELECT * FROM t"])
    assert refused.exit_code == 3
    monkeypatch.setenv("SPARSEQ_TOKEN", "sq_wrong")
    assert CliRunner().invoke(command_line, ["sql", "--server", served.url, COUNT]).exit_code == 7


def test_the_command_line_shows_public_facts_of_a_server(
    served: Running, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARSEQ_TOKEN", token)
    with sparseq.connect(served.url, token=token) as con:
        budget, card = con.budget(), con.card({"curator": "a shop & Söhne"})
    for name, facts, more in (
        ("budget", budget, []),
        ("card", card, ["--note", "curator=a shop & Söhne"]),
    ):
        done = CliRunner().invoke(
            command_line, [name, "--server", served.url, *more, "--format", "json"]
        )
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout) == json.loads(json.dumps(facts))
    assert card["basic"]["data_curators"] == "a shop & Söhne"
    said = CliRunner().invoke(command_line, ["card", "--server", served.url])
    assert said.stdout.startswith(f"# Privacy card: {served.url}")
    with pytest.raises(ParameterError, match="curatr"):
        con.card({"curatr": "a shop"})


def test_sigterm_answers_what_waits_and_closes(tmp_path: Path) -> None:
    path = tmp_path / "s.sparseq"
    made(path).close()
    token = secret(path, "ada")
    running = Running(path)
    with sparseq.connect(running.url, token=token) as con:
        answers = [con.sql(f"SELECT count(*) AS n FROM t WHERE x > {i}") for i in range(3)]
    assert running.stop() == 0
    assert {p.name for p in tmp_path.iterdir()} == {
        "s.sparseq",
        "s.sparseq.tokens",
        "s.sparseq.audit",
        "s.sparseq.saved",
    }
    with sparseq.connect(path) as con:
        assert [con.release(i + 1).to_bytes() for i in range(3)] == [a.to_bytes() for a in answers]
        assert con.releases()[0].released_at.date() <= dt.datetime.now(dt.UTC).date()
    shown = CliRunner().invoke(command_line, ["audit", "show", str(path)])
    assert "SELECT count(*) AS n FROM t WHERE x > 0" in shown.stdout
    verified = CliRunner().invoke(command_line, ["audit", "verify", str(path)])
    assert verified.exit_code == 0
