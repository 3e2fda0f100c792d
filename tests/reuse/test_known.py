"""The same question on the same data has one recorded answer, free for everybody who asks again."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import sparseq
from checks.stores import made_store
from sparseq.cli.app import sparseq as command
from sparseq.question.plan import Options
from sparseq.reuse.answer_cache import Inquiry
from sparseq.reuse.question_meanings import meaning_of
from sparseq.stream.batches import Request

FIRST = dt.date(2024, 1, 1)


def rows(seed: int = 1, people: int = 40, first: int = 0) -> pa.Table:
    draw = random.Random(seed)
    size = 6 * people
    return pa.table(
        {
            "who": [first + draw.randrange(people) for _ in range(size)],
            "kind": [draw.choice("abc") for _ in range(size)],
            "amount": [round(draw.uniform(0, 9), 2) for _ in range(size)],
            "n": [draw.randrange(-3, 12) for _ in range(size)],
            "day": [FIRST + dt.timedelta(draw.randrange(90)) for _ in range(size)],
            "ok": [draw.random() < 0.5 for _ in range(size)],
        }
    )


def store(path: Path | None = None, **more: Any) -> sparseq.Store:
    args: dict[str, Any] = {
        "table": "t",
        "user": "who",
        "time": "day",
        "seed": 3,
        "norm_budget": 200.0,
        "bounds": {"amount": (0, 9)},
        "keys": {"kind": ["a", "b", "c"]},
    }
    return made_store(path, rows(), **args | more)


def spent(con: sparseq.Store) -> list[int]:
    found: list[int] = con.stream.accounts.spent.tolist()
    return found


SAME = [
    [
        "SELECT count(*) AS n FROM t WHERE amount > 1 AND kind = 'a'",
        "select  COUNT( * ) n from T as x where 'a' = X.Kind and x.amount > 1.0;",
        "SELECT count(*) FILTER (WHERE NOT amount <= 1) AS n FROM t WHERE kind IN ('a')",
        "SELECT n FROM (SELECT count(*) AS n FROM t WHERE kind = 'a' AND 1 < amount) AS q",
    ],
    [
        "SELECT count(*) AS n FROM t WHERE n IN (3, 1, 2)",
        "SELECT count(*) AS n FROM t WHERE n BETWEEN 1 AND 3",
        "SELECT count(*) AS n FROM t WHERE n > 0 AND n < 4",
        "SELECT count(*) AS n FROM t WHERE n = 2 OR n = 1 OR n = 3",
    ],
    [
        "SELECT count(*) AS n FROM t WHERE day >= DATE '2024-02-01' AND day < DATE '2024-03-01'",
        "SELECT count(*) AS n FROM t WHERE day BETWEEN '2024-02-01' AND '2024-02-29'",
    ],
    [
        "SELECT kind, sum(amount) AS n FROM t GROUP BY kind",
        "SELECT kind, sum(amount) AS n FROM t AS y GROUP BY 1 ORDER BY kind",
        "SELECT KIND AS kind, SUM(Amount) AS n FROM t GROUP BY t.kind HAVING sum(amount) > -1e9",
    ],
    [
        "SELECT count(DISTINCT who) AS n FROM t WHERE ok",
        "SELECT count(DISTINCT t.who) AS n FROM t WHERE ok = true",
    ],
]
OTHERS = [
    "SELECT count(*) AS n FROM t WHERE amount >= 1 AND kind = 'a'",
    "SELECT count(*) AS n FROM t WHERE amount > 1 AND kind = 'A'",
    "SELECT count(*) AS n FROM t WHERE amount > 1",
    "SELECT count(*) AS n FROM t WHERE amount > 1 OR kind = 'a'",
    "SELECT count(DISTINCT who) AS n FROM t WHERE amount > 1 AND kind = 'a'",
    "SELECT count(*) AS n FROM t WHERE n BETWEEN 1 AND 4",
    "SELECT count(*) AS n FROM t WHERE NOT (n BETWEEN 1 AND 3)",
    "SELECT kind, sum(n) AS n FROM t WHERE n BETWEEN 0 AND 9 GROUP BY kind",
    "SELECT kind, sum(amount) AS n FROM t WHERE ok GROUP BY kind",
    "SELECT count(*) AS n FROM t WHERE NOT ok",
    "SELECT count(*) AS n FROM t x JOIN t y ON x.who = y.who WHERE x.kind = 'a'",
    "SELECT count(*) AS n FROM t x JOIN t y ON x.who = y.who WHERE y.kind = 'a'",
]


@pytest.mark.parametrize("in_or_out", [False, True])
def test_one_question_has_one_answer_however_it_is_spelled(in_or_out: bool) -> None:
    con = store(in_or_out=in_or_out)
    for i, spellings in enumerate(SAME):
        first = con.sql(spellings[0])
        paid = spent(con)
        assert not first.facts.repeated
        for again in spellings[1:] + spellings:
            answer = con.sql(again)
            if in_or_out or "FROM (" not in again:
                assert answer.facts.repeated, again
                assert answer.facts.release == i + 1
                assert answer.arrow().equals(first.arrow()), again
        assert spent(con) == paid
        assert con.released == i + 1


def test_what_was_asked_before_statistics_had_a_role_is_known_still() -> None:
    """What stands for a question, as stores of before have it: else a repeat would be charged."""
    con = sparseq.create(
        None,
        {"t": pa.table({"who": [1], "x": [1.0], "day": pa.array([19_000], pa.date32())})},
        user="who",
        time="day",
        seed=1,
        bounds={"x": (0, 9)},
    )
    before = {
        "SELECT count(*) AS n FROM t WHERE x > 1": "65afc9aa296c900ea540ee529443beb7",
        "SELECT sum(x) AS s, count(DISTINCT who) AS n FROM t": "cca45d918d74510c17e023ed3d27b2f6",
        "SELECT histogram(x, [0,1,2]) AS h FROM t": "03ad69068f778929a91f6e6bb177a06f",
    }
    for sql, digest in before.items():
        inquiry = Inquiry.of(con.lower(sql), None)
        assert inquiry is not None
        assert inquiry.digest == digest


@pytest.mark.parametrize("in_or_out", [False, True])
def test_other_questions_are_asked(in_or_out: bool) -> None:
    con = store(in_or_out=in_or_out)
    for question in [spellings[0] for spellings in SAME] + OTHERS:
        assert not con.sql(question).facts.repeated, question
    assert con.released == len(SAME) + len(OTHERS)


@pytest.mark.parametrize("in_or_out", [False, True])
def test_other_options_are_other_questions(in_or_out: bool) -> None:
    con = sparseq.create(
        None,
        {"t": rows(people=3000)},
        user="who",
        time="day",
        seed=3,
        bounds={"amount": (0, 9)},
        purposes=[sparseq.Questions(in_or_out=in_or_out, counts=200.0)],
    )
    query = con.lower("SELECT sum(amount) AS s FROM t")
    knobs: list[dict[str, float]] = [
        {},
        {"confidence": 0.9},
        {"sigma": 400.0},
        {"sigma": 500.0},
        {"accuracy": 700.0},
        {"scale": 5.0},
        {"scale": 6.0},
        {"price": 0.5},
    ]
    asked = [Options(**some) for some in knobs]
    firsts = [con.ask(query, options) for options in asked]
    assert not any(first.facts.repeated for first in firsts)
    again = [con.ask(query, options) for options in asked]
    assert [a.arrow() for a in again] == [a.arrow() for a in firsts]
    assert con.released == len(knobs)
    plain = firsts[knobs.index({})].facts.release
    assert con.ask(query, Options(confidence=0.95, price=1.0)).facts.release == plain
    in_text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 5) sum(amount) AS s FROM t"
    assert con.sql(in_text).facts.release == firsts[knobs.index({"scale": 5.0})].facts.release


def test_rows_that_arrive_start_an_epoch_and_an_erasure_does_not() -> None:
    con = store()
    count = "SELECT count(*) AS n FROM t"
    con.sql(count)
    from sparseq.store.curator import forget

    forget(con, 3)
    assert con.sql(count).facts.release == 1, "else the next answer would tell of it"
    con.ingest(rows(2, first=100))
    anew = con.sql(count)
    assert (anew.facts.release, anew.facts.repeated) == (2, False)
    assert con.sql(count).facts.release == 2


def test_fresh_and_new_request_ids_ask_anew() -> None:
    con = store()
    count = "SELECT count(*) AS n FROM t"
    con.sql(count)
    paid = sum(spent(con))
    assert con.sql(count, fresh=True).facts.release == 2
    assert sum(spent(con)) > paid
    assert con.sql(count).facts.release == 2, "the latest is the answer"
    named = [con.sql(count, request_id=name) for name in ("a", "b", "a")]
    assert [n.facts.release for n in named] == [3, 4, 3]
    assert con.sql(count).facts.release == 4


def test_a_question_that_was_asked_before_in_its_group_is_answered_once() -> None:
    con, other = store(), store()
    query = con.lower("SELECT count(*) AS n FROM t")
    asked = [Request(query), Request(query), Request(query, fresh=True), Request(query)]
    found = list(con.ask_many(asked))
    assert [o.recorded for o in found] == [False, True, False, True]
    assert [o.answer and o.answer.facts.release for o in found] == [1, 1, 2, 2]
    for one in asked:
        other.ask(one.query, fresh=one.fresh)
    assert spent(con) == spent(other)


def test_it_outlives_the_process_and_a_copy_knows_it(tmp_path: Path) -> None:
    with store(tmp_path / "s.sparseq") as con:
        first = con.sql(SAME[0][0]).arrow()
        sparseq.backup(con, tmp_path / "copy.sparseq")
    for path in ("s.sparseq", "copy.sparseq"):
        with sparseq.connect(tmp_path / path) as con:
            again = con.sql(SAME[0][1])
            assert again.facts.repeated
            assert again.arrow().equals(first)
            con.sql("SELECT count(*) AS n FROM t", params=None)


def test_parameters_are_bound_before() -> None:
    con = store()
    con.sql("SELECT count(*) AS n FROM t WHERE kind = ?", ["a"])
    assert con.sql("SELECT count(*) AS n FROM t WHERE kind = $k", {"k": "a"}).facts.repeated
    assert not con.sql("SELECT count(*) AS n FROM t WHERE kind = $k", {"k": "b"}).facts.repeated


def test_today_is_another_question_tomorrow(monkeypatch: pytest.MonkeyPatch) -> None:
    con = store()
    text = "SELECT count(*) AS n FROM t WHERE day <= current_date"
    today = meaning_of(con.lower(text))
    fixed = f"SELECT count(*) AS n FROM t WHERE day <= DATE '{dt.date.today()}'"
    assert meaning_of(con.lower(fixed)) == today
    before = f"SELECT count(*) AS n FROM t WHERE day <= DATE '{dt.date(2024, 2, 2)}'"
    assert meaning_of(con.lower(before)) != today


def test_explain_says_what_is_known() -> None:
    con = store()
    count = "SELECT count(*) AS n FROM t"
    assert "known" not in con.explain(count).facts
    answer = con.sql(count)
    paid = spent(con)
    found = con.explain(count)
    assert found.facts["known"]["release"] == 1
    assert found.facts["known"]["half_width"] == {"n": answer.rows()[0]["n_error"]}
    assert "release 1 has the answer" in repr(found)
    assert spent(con) == paid


def test_the_command_says_so(tmp_path: Path) -> None:
    path = str(tmp_path / "s.sparseq")
    store(tmp_path / "s.sparseq").close()

    def said(*more: str) -> str:
        done = CliRunner().invoke(command, ["sql", path, "SELECT count(*) AS n FROM t", *more])
        assert done.exit_code == 0, done.output
        return done.output

    assert "asked before" not in said()
    assert "release   1 (the same question was asked before" in " ".join(said().split("\n")) or (
        "the same question was asked before: no new noise, no charge" in said()
    )
    assert '"repeated": true' in said("--format", "json")
    assert "asked before" not in said("--fresh")


def test_a_random_stream_charges_for_each_question_once() -> None:
    draw = random.Random(7)
    con, plain = store(norm_budget=1e5), store(norm_budget=1e5)
    asked = set()
    for _ in range(60):
        i = draw.randrange(len(SAME))
        con.sql(draw.choice(SAME[i][:2]))
        if i not in asked:
            plain.sql(SAME[i][0])
            asked.add(i)
        assert spent(con) == spent(plain)


@pytest.mark.parametrize("in_or_out", [False, True])
def test_who_stops_a_question_leaves_no_other_answer_for_it(
    in_or_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    con = store(in_or_out=in_or_out)
    question = "SELECT kind, count(*) AS n FROM t GROUP BY kind"
    other = "SELECT ok, count(*) AS n FROM t GROUP BY 1"

    def stop() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(con.stream.engine, "take_failures", stop)
        with pytest.raises(KeyboardInterrupt):
            con.sql(question)
    con.sql(other)
    asked = con.sql(question)
    assert (asked.facts.release, asked.facts.repeated) == (2, False)


def test_an_epoch_that_could_not_begin_is_not_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = "SELECT count(*) AS n FROM t"

    def full(_: object) -> None:
        raise sparseq.StoreError("the disk is full")

    with store(tmp_path / "s.sparseq") as con:
        with monkeypatch.context() as patch:
            patch.setattr(con.stream.ledger, "in_transaction", full)
            with pytest.raises(sparseq.StoreError):
                con.ingest(rows(2, first=100))
        con.sql(count)
    with sparseq.connect(tmp_path / "s.sparseq") as con:
        con.ingest(rows(2, first=100))
    with sparseq.connect(tmp_path / "s.sparseq") as con:
        assert not con.sql(count).facts.repeated
