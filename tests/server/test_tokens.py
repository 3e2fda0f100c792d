"""Tokens: shown once, kept as hashes, revoked at once."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import hashlib
import hmac
import sqlite3
from pathlib import Path

import pytest

from sparseq.base.errors import ParameterError
from sparseq.server.tokens import Quota, Role, Tokens, Verifier


def test_another_process_sees_them_and_takes_them_away(tmp_path: Path) -> None:
    here, there = Tokens(tmp_path / "tokens"), Tokens(tmp_path / "tokens")
    secret = here.create("ada", Role.ANALYST, Quota.parse("20/day,5%"), dt.timedelta(days=90))
    who = there.signed_in(secret)
    assert who is not None
    assert (who.name, who.role, str(who.quota)) == ("ada", "analyst", "20/day,5%")
    assert who.expires is not None
    assert here.revoke("ada") == 1
    assert not there.holds(who)
    assert there.signed_in(secret) is None
    assert there.principal("ada") is None
    assert here.revoke("ada") == 0


def test_the_file_does_not_have_the_token(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens")
    secret = tokens.create("ada", Role.CURATOR)
    tokens.close()
    assert secret.removeprefix("sq_").encode() not in (tmp_path / "tokens").read_bytes()
    assert (tmp_path / "tokens").stat().st_mode & 0o077 == 0


def test_when_a_token_was_used_is_kept(tmp_path: Path) -> None:
    """Also in a file of an earlier version, which has no such table."""
    tokens = Tokens(tmp_path / "tokens")
    ada = tokens.signed_in(tokens.create("ada", Role.ANALYST))
    tokens.create("bob", Role.ANALYST)
    tokens.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "tokens")) as earlier:
        earlier.execute("DROP TABLE uses")
    tokens, before = Tokens(tmp_path / "tokens"), dt.datetime.now(dt.UTC).replace(microsecond=0)
    assert ada is not None
    tokens.use(ada)
    tokens.note_uses()
    tokens.close()
    used = {one.name: one.used for one in Tokens(tmp_path / "tokens").every()}
    assert used["bob"] is None
    assert used["ada"] is not None
    assert before <= used["ada"] <= dt.datetime.now(dt.UTC)


def test_what_has_expired_is_over() -> None:
    tokens = Tokens(None)
    secret = tokens.create("ada", Role.ANALYST, expires=dt.timedelta(0))
    assert tokens.signed_in(secret) is None
    tokens.create("ada", Role.ANALYST)


def test_a_name_has_one_token() -> None:
    tokens = Tokens(None)
    tokens.create("ada", Role.ANALYST)
    with pytest.raises(ParameterError):
        tokens.create("ada", Role.ANALYST)
    assert [t.name for t in tokens.every()] == ["ada"]


@pytest.mark.parametrize("name", ["", "a b", "é", "-a", "a" * 64, "a/b", "a\n"])
def test_odd_names(name: str) -> None:
    with pytest.raises(ParameterError):
        Tokens(None).create(name, Role.ANALYST)


@pytest.mark.parametrize("text", ["20", "5", "x/day", "-1/day", "20/day;5%", "1e3%"])
def test_odd_quotas(text: str) -> None:
    with pytest.raises(ParameterError):
        Quota.parse(text)


def test_the_verifier_is_that_of_the_standards_example() -> None:
    """RFC 7677, section 3: user, pencil, 4096 iterations."""
    made = Verifier.of("pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
    said = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,"
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    signature = hmac.digest(made.stored_key, said, "sha256")
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == made.stored_key
    assert base64.b64encode(hmac.digest(made.server_key, said, "sha256")) == (
        b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )


def test_an_unknown_name_has_a_verifier_that_looks_like_one() -> None:
    tokens = Tokens(None)
    first, again = tokens.verifier("nobody"), tokens.verifier("nobody")
    assert (first.salt, first.iterations) == (again.salt, again.iterations)
    assert first.stored_key != again.stored_key
    assert len(first.salt) == 16
