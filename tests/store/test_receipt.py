"""A person's receipt: all that was charged, proved under a root, and given to nobody else."""

from __future__ import annotations

import asyncio
import copy
import datetime as dt
import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import httpx
import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from journal_check import audit
from receipt_check import check

import sparseq
from checks.stores import made_store
from sparseq.base.errors import ParameterError, SparseqError, StoreError
from sparseq.cli.app import sparseq as command_line
from sparseq.cli.session import COMMANDS
from sparseq.ledger._duckdb.journal import Journal
from sparseq.ledger.packed_integers import pack, pack_set
from sparseq.ledger.root_chain import ROOT_KEY, RootChain
from sparseq.server.http.app import ENDPOINTS, application
from sparseq.server.job_file import KINDS
from sparseq.server.mcp import TOOLS
from sparseq.server.service import Service
from sparseq.server.tokens import Role, Tokens
from sparseq.store import account_roots
from sparseq.store.account_roots import publish_root, published_roots
from sparseq.store.curator import account, forget
from sparseq.store.receipt import receipt, receipts
from sparseq.stream.new_purpose import add_purpose

ROOT = Path(__file__).parents[2]
Receipt = dict[str, Any]


def rows(people: int) -> pa.Table:
    draw = np.random.default_rng(1)
    who = np.concatenate([np.arange(people), draw.integers(0, people, 4 * people)])
    return pa.table({"who": [f"u{w}" for w in who], "k": draw.integers(0, 9, len(who))})


def ask(con: sparseq.Store, *lowest: int) -> None:
    for k in lowest:
        con.sql(f"SELECT count(*) AS n FROM t WHERE k > {k}")


def made(path: Path, people: int) -> Path:
    """A store with a root of accounts after two answers, and two more answers."""
    with sparseq.create(path, {"t": rows(people)}, user="who", seed=1) as con:
        ask(con, 0, 2)
        publish_root(con)
        ask(con, 4, 6)
    return path


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Such a store of 100 people."""
    return made(tmp_path_factory.mktemp("asked") / "s.sparseq", 100)


@pytest.fixture(scope="module")
def proved(asked: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Receipt], Any]:
    """Receipts of 20 people under both roots of accounts, and all roots."""
    path = Path(shutil.copy(asked, tmp_path_factory.mktemp("proved")))
    with sparseq.connect(path) as con:
        publish_root(con)
        return receipts(con, [f"u{k}" for k in range(20)], True, 2), published_roots(con)


def test_an_independent_program_accepts_it(proved: tuple[list[Receipt], Any]) -> None:
    found, roots = proved
    for one in found:
        check(one, roots)
    assert len({one["accounts"][0]["proofs"][0]["place"] for one in found}) == len(found)
    charged = [[c["release"] for c in one["accounts"][0]["charges"]] for one in found]
    assert any(later[-1:] == [4] for later in charged)
    for verifier, most in (("receipt_check.py", 130), ("journal_check.py", 145)):
        lines = (ROOT / "tests" / verifier).read_text("utf-8").splitlines()
        assert len([line for line in lines if line.strip()]) <= most
        assert not [
            line for line in lines if line.startswith(("import", "from")) and "sparseq" in line
        ]


@pytest.mark.deep
def test_a_thousand_people_and_what_they_kept(tmp_path: Path) -> None:
    """Everybody's receipt, and beside it the one of the root before."""
    everybody = [f"u{k}" for k in range(1000)]
    with sparseq.connect(made(tmp_path / "s.sparseq", len(everybody))) as con:
        kept = receipts(con, everybody, True)
        publish_root(con)
        roots = published_roots(con)
        for now, before in zip(receipts(con, everybody, True, 2), kept, strict=True):
            check(now, roots, before)


def _last(one: Receipt) -> Receipt:
    charge: Receipt = one["accounts"][0]["charges"][-1]
    return charge


def _more(one: Receipt, units: int, part: int = 0) -> None:
    """Let an account's sums be those of other charges."""
    part_of = one["accounts"][0]["parts"][part]
    part_of["spent"] += units
    part_of["left"] -= units


def changed_charge(one: Receipt, roots: Any) -> None:
    _last(one)["units"] += 1


def changed_charge_and_sums(one: Receipt, roots: Any) -> None:
    changed_charge(one, roots)
    _more(one, 1)


def two_charges(one: Receipt, roots: Any) -> None:
    charges = one["accounts"][0]["charges"]
    charges[0]["units"] += 1
    charges[1]["units"] -= 1


def dropped(one: Receipt, roots: Any) -> None:
    one["accounts"][0]["charges"].pop()


def dropped_and_sums(one: Receipt, roots: Any) -> None:
    _more(one, -one["accounts"][0]["charges"].pop()["units"])


def dropped_with_its_proof(one: Receipt, roots: Any) -> None:
    dropped_and_sums(one, roots)
    one["accounts"][0]["proofs"].pop()


def other_question(one: Receipt, roots: Any) -> None:
    _last(one)["question"] = "SELECT count(*) AS n FROM u"


def other_time(one: Receipt, roots: Any) -> None:
    _last(one)["released_at"] = "2001-01-01T00:00:00Z"


def other_asker(one: Receipt, roots: Any) -> None:
    _last(one)["asked_by"] = "train"


def other_person(one: Receipt, roots: Any) -> None:
    one["accounts"][0]["name"] = "u99"


def account_of_another(one: Receipt, roots: Any) -> None:
    one["person"] = one["accounts"][0]["account"] = "u99"


def account_without_a_name(one: Receipt, roots: Any) -> None:
    one["accounts"][0]["name"] = ""


def larger_budget(one: Receipt, roots: Any) -> None:
    part = one["accounts"][0]["parts"][0]
    part["budget"] += 1
    part["left"] += 1


def other_place(one: Receipt, roots: Any) -> None:
    one["accounts"][0]["proofs"][-1]["place"] ^= 1


def root_of_no_list(one: Receipt, roots: Any) -> None:
    roots.pop()


def forked_list(one: Receipt, roots: Any) -> None:
    """Of accounts: another tree in the place of the first."""
    roots[2] |= {"tree": roots[-1]["tree"]}


def answer_left_out(one: Receipt, roots: Any) -> None:
    roots.pop(3)


def answers_the_other_way_round(one: Receipt, roots: Any) -> None:
    roots[3], roots[4] = roots[4], roots[3]


def question_retold_to_all(one: Receipt, roots: Any) -> None:
    other_question(one, roots)
    told = [_last(one)[k] for k in ("release", "released_at", "asked_by", "request", "question")]
    text = json.dumps(told, separators=(",", ":"))
    roots[-2] |= {"said": hashlib.sha256(text.encode()).hexdigest()}


def question_retold_after_the_last_root(one: Receipt, roots: Any) -> None:
    """Where the tree has nothing of it, the list has."""
    del one["accounts"][0]["proofs"][-1], roots[-1]
    check(one, roots)
    other_question(one, roots)


TAMPERED = (
    changed_charge,
    changed_charge_and_sums,
    two_charges,
    dropped,
    dropped_and_sums,
    other_place,
    dropped_with_its_proof,
    other_question,
    other_time,
    other_asker,
    other_person,
    account_of_another,
    account_without_a_name,
    larger_budget,
    root_of_no_list,
    forked_list,
    answer_left_out,
    answers_the_other_way_round,
    question_retold_to_all,
    question_retold_after_the_last_root,
)


@pytest.mark.parametrize("tamper", TAMPERED, ids=lambda tamper: tamper.__name__)
def test_whatever_is_changed_is_found(
    tamper: Callable[[Receipt, Any], None], proved: tuple[list[Receipt], Any]
) -> None:
    found, roots = copy.deepcopy(proved)
    one = next(r for r in found if len(r["accounts"][0]["charges"]) == 4)
    check(one, roots)
    tamper(one, roots)
    with pytest.raises(ValueError, match=r"\w"):
        check(one, roots)


Change = tuple[str, Callable[[Receipt], None]]


def changes(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[Change]:
    """Yield each change of one value of a receipt, by its path."""
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from changes(value[key], (*path, key))
        return
    for other in others_of(value):

        def change(one: Any, other: Any = other) -> None:
            for key in path[:-1]:
                one = one[key]
            one[path[-1]] = other

        yield f"{path}: {value!r:.40} → {other!r:.40}", change


def others_of(value: Any) -> list[Any]:
    """Return other values of the same type."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, max(value - 1, 0)] if value else [1]
    if isinstance(value, float):
        return [value + 1, value * 1.001] if value else [0.001]
    if value is None:
        return [1, "x"]
    if re.fullmatch("[0-9a-f]{32,}", value):
        return [f"{value[:-1]}{int(value[-1], 16) ^ 1:x}"]
    return [f"{value} ", value[1:]] if value else ["x"]


def several_parts() -> tuple[Receipt, Any]:
    tables = {"t": rows(50), "other": pa.table({"who": ["u7", "u7"]})}
    with sparseq.create(None, tables, user="who", seed=1) as con:
        ask(con, 0)
        add_purpose(con.stream, sparseq.Purpose("weekly", 0.25, 10))
        ask(con, 4)
        publish_root(con)
        ask(con, 6)
        return receipt(con, "u7", True), published_roots(con)


def several_windows() -> tuple[Receipt, Any]:
    days = [dt.date(2024, m, 1) for m in (1, 2, 3, 1)]
    visits = pa.table({"who": ["ann"] * 3 + ["bob"], "day": days})
    with sparseq.create(
        None, visits, user="who", time="day", window=("month", 1.25), seed=1
    ) as con:
        con.sql(
            "SELECT date_trunc('month', day) AS m, count(*) AS n FROM events "
            "WHERE day BETWEEN '2024-01-01' AND '2024-03-31' GROUP BY 1"
        )
        publish_root(con)
        return receipt(con, "ann", True), published_roots(con)


def left_out_and_erased() -> tuple[Receipt, Any]:
    with made_store(
        None, rows(9), table="t", user="who", norm_budget=4.0, in_or_out=True, seed=1
    ) as con:
        ask(con, *range(-9, 0))
        publish_root(con)
        forget(con, "u7")
        ask(con, 3)
        publish_root(con)
        return receipt(con, "u7", True, 9), published_roots(con)


@pytest.mark.parametrize("kind", ["plain", several_parts, several_windows, left_out_and_erased])
def test_each_changed_field_is_noticed(kind: Any, proved: tuple[list[Receipt], Any]) -> None:
    """All values of a receipt are found by walking it; none may be another."""
    one, roots = kind() if callable(kind) else (proved[0][7], proved[1])
    one = json.loads(json.dumps(one))  # as it is given away
    check(one, roots)
    tried = 0
    for name, change in changes(one):
        other = copy.deepcopy(one)
        change(other)
        try:
            check(other, roots)
        except ValueError:
            tried += 1
        else:
            pytest.fail(f"not noticed: {name}")
    assert tried > 150
    if kind is left_out_and_erased:
        assert (one["erased"], one["accounts"][0]["left_out"]) != (False, None)


def test_what_a_root_does_not_seal_is_refused_with_what_to_do() -> None:
    with sparseq.create(None, {"t": rows(9)}, user="who", seed=1) as con:
        ask(con, 0)
        publish_root(con)
        con.ingest(pa.table({"who": ["u7"], "k": [1]}))
        before = receipt(con, "u7")["accounts"][0]["rows"]["t"]
        assert receipt(con, "u7", True)["accounts"][0]["rows"] == {"t": before - 1}
        add_purpose(con.stream, sparseq.Purpose("weekly", 0.25, 10))
        with pytest.raises(ParameterError, match="came after the last root"):
            receipt(con, "u7", True)


def test_a_root_that_an_earlier_version_made_still_holds(asked: Path, tmp_path: Path) -> None:
    """It seals charges and budgets alone; a receipt is proved under it and a later one."""
    path, grown = Path(shutil.copy(asked, tmp_path / "s.sparseq")), account_roots._grown
    with (
        sparseq.connect(path) as con,
        mock.patch.object(account_roots, "_grown", lambda *known: grown(*known[:-1], None)),
    ):
        publish_root(con)
    with duckdb.connect(str(path)) as raw:
        raw.execute("DELETE FROM ledger.account_facts WHERE release = 4")
    with sparseq.connect(path) as con:
        with pytest.raises(ParameterError, match="of an earlier version"):
            receipt(con, "u7", True)
        ask(con, 1)
        publish_root(con)
        found, roots = receipt(con, "u7", True, 4), published_roots(con)
        check(found, roots)
        assert ["own" in proof for proof in found["accounts"][0]["proofs"]] == [False, True]


def test_no_word_of_a_root_can_be_another(proved: tuple[list[Receipt], Any]) -> None:
    found, roots = copy.deepcopy(proved)
    tried = 0
    for row in roots:
        for name, value in row.items():
            if name != "published_at":
                row[name] = value + 1 if name == "release" else f"{int(value, 16) ^ 1:064x}"
                with pytest.raises(ValueError, match=r"\w"):
                    check(found[0], roots)
                row[name] = value
                tried += 1
    check(found[0], roots)
    assert tried == 4 * 5 + 2 * 4


def test_what_everybody_saw_binds_whom_each_answer_charged(asked: Path, tmp_path: Path) -> None:
    """An auditor with the file finds a charge that was taken back; so do we, and prove nothing."""
    path = Path(shutil.copy(asked, tmp_path / "s.sparseq"))
    some = [f"u{k}" for k in range(30)]
    with sparseq.connect(path) as con:
        con.sql("SELECT sum(least(greatest(k, 0), 9)) AS s FROM t")
        con.sql("SELECT count(DISTINCT who) AS n FROM t")
        publish_root(con)
        found, roots = receipts(con, some, True, 2), published_roots(con)
        seen = [(one.id, one.root) for one in con.releases()]
        given = hashlib.sha256(con.release(5).to_bytes()).hexdigest()
    assert seen == [(row["release"], row["root"]) for row in roots if "sealed" in row]
    assert [row["answer"] for row in roots if row["release"] == 5 and "answer" in row] == [given]
    audit(path, roots, found)
    who = next(one for one in found if len(one["accounts"][0]["charges"]) == 6)
    who["accounts"][0]["charges"][-1]["units"] += 1
    with pytest.raises(ValueError, match="don't add up"):
        audit(path, roots, [who])
    with duckdb.connect(str(path)) as raw:
        raw.execute(
            "UPDATE ledger.release_1 SET users = (SELECT users FROM ledger.release "
            "WHERE id = 4), charges = (SELECT charges FROM ledger.release WHERE id = 4) "
            "WHERE id = 3"
        )
    with pytest.raises(ValueError, match="answer 3 charged others"):
        audit(path, roots, [])
    with sparseq.connect(path) as con:
        ask(con, 1)
        with pytest.raises(StoreError, match="up to release 3 does not match the published root"):
            publish_root(con)


def test_two_histories_of_one_store_do_not_pass_for_one(asked: Path, tmp_path: Path) -> None:
    """A copy goes another way: its receipts don't fit the roots of the other, nor kept receipts."""
    told = []
    for k, lowest in enumerate((1, 3)):
        with sparseq.connect(shutil.copy(asked, tmp_path / f"{k}.sparseq")) as con:
            ask(con, lowest)
            publish_root(con)
            told.append((receipt(con, "u7", True, 2), published_roots(con)))
    (one, roots), (other, fork) = told
    check(one, roots)
    check(other, fork)
    assert roots[:5] == fork[:5]
    paths = [set(told[k][0]["accounts"][0]["proofs"][-1]["path"]) for k in (0, 1)]
    assert not paths[0] & paths[1], "or whose account is another in a copy could be seen"
    assert roots[5]["root"] != fork[5]["root"], "the very next answer tells"
    for given, seen in ((one, fork), (other, roots), (one, [*roots, fork[-1]])):
        with pytest.raises(ValueError, match=r"\w"):
            check(given, seen)
    assert any(c["release"] == 5 for c in other["accounts"][0]["charges"])
    with pytest.raises(ValueError, match="earlier receipt"):
        check(one, roots, other)


def test_an_account_that_is_made_smaller_is_under_no_root_that_anybody_saw(
    asked: Path, tmp_path: Path
) -> None:
    """A curator takes u7's first charge back, and makes all roots anew, with the store's key."""
    path = Path(shutil.copy(asked, tmp_path / "s.sparseq"))
    with sparseq.connect(path) as con:
        publish_root(con)
        kept, seen = receipt(con, "u7", True), published_roots(con)
        known = con.backend.find("u7").inside()
        key = bytes.fromhex(con.stream.ledger.fact(ROOT_KEY))
    assert known is not None
    first = kept["accounts"][0]["charges"][0]["release"]
    with duckdb.connect(str(path)) as raw:
        journal, chain = Journal(raw), RootChain(key)
        users, charges = journal.charges(first)
        others = users != known.user
        raw.execute(
            "UPDATE ledger.release_1 SET users = ?, charges = ? WHERE id = ?",
            [pack_set(users[others]), bytes(pack(charges[others])), first],
        )
        raw.execute(
            "DELETE FROM ledger.account_roots; DELETE FROM ledger.snapshot;"
            "DELETE FROM meta WHERE key = 'account root'"
        )
        columns = "id, users, charges, coalesce(departed, ''::BLOB)"
        rows = raw.execute(f"SELECT {columns} FROM ledger.release ORDER BY id").fetchall()
        for number, *parts in rows:
            hashes = chain.add(journal.read(number), [*parts, b"", b""])
            raw.execute(
                "UPDATE ledger.release_1 SET sealed = ?, root = ? WHERE id = ?", [*hashes, number]
            )
    with sparseq.connect(path) as con:
        publish_root(con)
        found, own = receipt(con, "u7", True), published_roots(con)
    check(found, own)
    assert len(found["accounts"][0]["charges"]) == len(kept["accounts"][0]["charges"]) - 1
    assert own[first - 1]["root"] != seen[first - 1]["root"]
    with pytest.raises(ValueError, match="not published"):
        check(found, seen)
    with pytest.raises(ValueError, match="earlier receipt"):
        check(found, own, kept)


def test_a_past_that_was_rewritten_gives_no_proof(asked: Path, tmp_path: Path) -> None:
    path = shutil.copy(asked, tmp_path / "s.sparseq")
    with duckdb.connect(str(path)) as raw:
        raw.execute("UPDATE ledger.release_1 SET query = 'SELECT 1' WHERE id = 1")
    with (
        sparseq.connect(path) as con,
        pytest.raises(StoreError, match="not match the published"),
    ):
        receipt(con, "u7", True)


def test_it_has_every_charge_to_the_unit_and_says_what_it_means(asked: Path) -> None:
    with sparseq.connect(asked) as con:
        found, known = receipt(con, "u7"), account(con, "u7")
        (one,) = found["accounts"]
        assert [(c["release"], c["norm"]) for c in one["charges"]] == list(known.releases)
        assert one["rows"] == known.rows
        assert {c["release"]: c["question"] for c in one["charges"]}.items() <= {
            r.id: r.query for r in con.releases()
        }.items()
        units = sum(c["units"] for c in one["charges"])
        (part,) = (p for p in one["parts"] if p["part"] == "queries")
        assert (part["spent"], part["left"]) == (units, part["budget"] - units)
        means, budget = found["means"], con.guarantee
        assert means["kappa"] == pytest.approx(budget.kappa * units / 2**24 / budget.norm_budget)
        assert set(means) == {"kappa", "says"}
        assert "no bound on how often a guess is right" in means["says"]
        assert found["promise"] == con.promise.statement.to_dict()


def test_windows_a_cap_for_life_several_tables_and_a_later_purpose_add_up() -> None:
    days = [dt.date(2024, m, 1) for m in (1, 2, 3, 1)]
    visits = pa.table({"who": ["ann"] * 3 + ["bob"], "day": days})
    con = made_store(
        None,
        visits,
        table="t",
        user="who",
        time="day",
        window=("month", 1.25),
        norm_budget=4.0,
        in_or_out=True,
        seed=1,
    )
    con.sql(
        "SELECT date_trunc('month', day) AS m, count(*) AS n FROM t "
        "WHERE day BETWEEN '2024-01-01' AND '2024-03-31' GROUP BY 1"
    )
    publish_root(con)
    found = receipt(con, "ann", True)
    check(found, published_roots(con))
    assert [a["account"] for a in found["accounts"]] == [f"ann,2024-0{m}-01" for m in (1, 2, 3)]
    life = [c["norm"] for a in found["accounts"] for c in a["charges"] if c["pot"] == 255]
    assert (life, found["means"]["kappa"]) == ([3.0], 3 * 0.5 / 4)
    con.close()

    tables = {"t": rows(50), "other": pa.table({"who": ["u7", "u7"]})}
    con = sparseq.create(None, tables, user="who", seed=1)
    ask(con, 0)
    publish_root(con)
    kept = receipt(con, "u7", True)
    add_purpose(con.stream, sparseq.Purpose("weekly", 0.25, 10))
    ask(con, 4)
    publish_root(con)
    found, roots = receipt(con, "u7", True, 1), published_roots(con)
    check(found, roots, kept)
    (one,) = found["accounts"]
    assert one["rows"]["other"] == 2
    moved = next(c for c in one["charges"] if "weekly" in c["question"])
    used = sum(c["norm"] for c in one["charges"]) - moved["norm"]
    budget = con.guarantee
    assert moved["norm"] > used
    assert found["means"]["kappa"] == pytest.approx(budget.kappa * used / budget.norm_budget)


def test_who_was_erased_has_a_receipt_and_old_roots_still_hold(asked: Path, tmp_path: Path) -> None:
    with sparseq.connect(shutil.copy(asked, tmp_path)) as con:
        before = receipt(con, "u7", True)
        forget(con, "u7", "u8")
        publish_root(con)
        found, roots = receipt(con, "u7", True, 2), published_roots(con)
        check(found, roots, before)
        check(receipt(con, "u9", True, 2), roots)
        assert (found["erased"], found["accounts"][0]["rows"]) == (True, {"t": 0})
        assert found["accounts"][0]["name"] == "u7"


def test_nobody_elses_rows_are_in_it_and_roots_tell_nothing() -> None:
    """Two stores with the same answers, in which only u7's rows are the same."""
    found = []
    for shift in (0, 1):
        kinds = ["a", "b"] if shift else ["b", "a"]
        table = pa.table({"who": ["u7", "x", f"z{shift}"], "kind": ["c", *kinds]})
        con = made_store(None, table, table="t", user="who", in_or_out=True, seed=1)
        answers = [con.sql("SELECT count(*) AS n FROM t").rows() for _ in range(1)]
        first = publish_root(con)
        one = receipt(con, "u7")
        for charge in one["accounts"][0]["charges"]:
            charge.pop("released_at")
        proofs = []
        for _ in range(2):
            (with_proof,) = receipt(con, "u7", True)["accounts"]
            proofs.append(with_proof["proofs"][-1])
            con.sql("SELECT count(*) AS n FROM t WHERE kind = 'a'")
            publish_root(con)
        assert proofs[0]["salt"] != proofs[1]["salt"]
        assert proofs[0]["root"] == first["root"]
        before, after = (set(p["path"]) for p in proofs)
        assert (len(before), before & after) == (48, set())  # though u7 was charged for nothing
        found.append((answers, one))
    assert found[0] == found[1]


def test_only_the_curators_commands_know_of_it(asked: Path) -> None:
    """No other code names it: no server, wire, agent's tool, job or shell; asking is refused."""
    files = [p for p in (ROOT / "sparseq").rglob("*") if p.suffix in (".py", ".js")]
    word = re.compile(r"receipt|sparseq\.store\.curator|store import curator")
    knowing = {p.stem for p in files if word.search(p.read_text("utf-8"))}
    assert knowing == {
        "account_facts",
        "account_roots",
        "receipt",
        "curator",
        "create",
        "former_names",
        "plan",
        "promise_statement",
        "rehearsal",  # of a dashboard, on data that the curator may look at
    }
    offered = [*KINDS, *TOOLS, *(c.usage for c in COMMANDS), *(e.path for e in ENDPOINTS)]
    assert {"ask", "/v1/budget", "backup"} <= set(offered)
    assert not [name for name in offered if re.search("root|proof|account|person", name)]
    with sparseq.connect(asked) as con:
        for name in ("ledger.account_roots", "account_roots", "account_names", "meta"):
            with pytest.raises(SparseqError):
                con.sql(f"SELECT count(*) AS n FROM {name}")
        key = con.stream.ledger.fact("root key")
        assert len(bytes.fromhex(key)) == 32
        told = json.dumps([con.budget(), con.promise.card()], default=str)
        assert key not in told
        asyncio.run(refused_over_http(con))


async def refused_over_http(con: sparseq.Store) -> None:
    """Not even a curator's token gets a receipt."""
    service = Service(con, Tokens(None))
    transport = httpx.ASGITransport(application(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        for role in (Role.CURATOR, Role.ANALYST):
            secret = service.tokens.create(role.value, role)
            client.headers["Authorization"] = f"Bearer {secret}"
            assert (await client.get("/v1/budget")).status_code == 200
            for path in ("/v1/receipt", "/v1/receipt/u7", "/v1/root", "/v1/curator/receipt"):
                assert (await client.get(path)).status_code == 404
    await service.close()


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(command_line, list(map(str, words)), prog_name="sparseq")


def test_commands(asked: Path, tmp_path: Path) -> None:
    store = shutil.copy(asked, tmp_path)
    text = run("curator", "receipt", store, "u7")
    assert "PRIVATE" in text.stderr
    assert "used for       " in text.stdout
    assert "SELECT count(*) AS n FROM t WHERE k > 0" in text.stdout
    roots, file = tmp_path / "roots.json", tmp_path / "u7.json"
    assert run("curator", store, "root").exit_code == 0
    listed = run("curator", store, "root", "--list", "--format", "json")
    roots.write_text(listed.stdout)
    wanted = (
        "curator",
        store,
        "receipt",
        "u7",
        "--proof",
        "--since-release",
        "2",
        "--format",
        "json",
    )
    assert run(*wanted, "--output", file).exit_code == 0
    assert file.stat().st_mode & 0o077 == 0
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "receipt_check.py", file, roots],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "the receipt is as it was published\n"
    for words, code, said in (
        (("nobody",), 2, "nobody has the identifier 'nobody'"),
        (("u7", "--since-release", "2"), 2, "add --proof"),
        (("u7", "--proof", "--since-release", "3"), 2, "there are: 2"),
    ):
        result = run("curator", store, "receipt", *words)
        assert (result.exit_code, said in result.stderr) == (code, True), result.stderr


def test_without_a_root_there_is_no_proof() -> None:
    con = sparseq.create(None, {"t": rows(3)}, user="who", seed=1)
    with pytest.raises(ParameterError, match="no root was published"):
        receipt(con, "u1", True)
    publish_root(con)
    con.ingest(pa.table({"who": ["new"], "k": [1]}))
    with pytest.raises(ParameterError, match="came after the root"):
        receipt(con, "new", True)
