"""SCRAM-SHA-256: RFC 7677's example, and what goes wrong."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from sparseq.pgwire.scram import Exchange, mechanism_and_first, wrong_token
from sparseq.pgwire.wire_errors import WireError
from sparseq.server.tokens import Verifier


def _known(secret: str, salt: bytes, iterations: int) -> Verifier:
    salted = hashlib.pbkdf2_hmac("sha256", secret.encode(), salt, iterations)
    client = hmac.digest(salted, b"Client Key", "sha256")
    server = hmac.digest(salted, b"Server Key", "sha256")
    return Verifier(salt, iterations, hashlib.sha256(client).digest(), server)


PENCIL = _known("pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
WHOLE = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FINAL = b"c=biws,r=" + WHOLE + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="


def test_the_example_of_rfc_7677() -> None:
    exchange = Exchange(PENCIL, NONCE)
    assert exchange.opened(FIRST) == b"r=" + WHOLE + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert exchange.closed(FINAL) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_another_token_is_refused() -> None:
    exchange = Exchange(_known("pen", PENCIL.salt, 4096), NONCE)
    exchange.opened(FIRST)
    assert exchange.closed(FINAL) is None


@pytest.mark.parametrize(
    "final",
    [
        FINAL.replace(b"biws", b"eSws"),  # another header than it began with: a downgrade
        FINAL.replace(b"c=biws", b"c="),
        FINAL.replace(b"%hv", b"%hw"),  # the nonce of another exchange: a replay
        FINAL[:-2],
        FINAL.replace(b",p=", b",m=x,p="),
        b"",
        b"\xff" * 20,
    ],
)
def test_what_does_not_belong_to_the_exchange_is_refused(final: bytes) -> None:
    exchange = Exchange(PENCIL, NONCE)
    exchange.opened(FIRST)
    with pytest.raises(WireError):
        exchange.closed(final)


def test_the_last_message_first_is_refused() -> None:
    with pytest.raises(WireError):
        Exchange(PENCIL, NONCE).closed(FINAL)


def test_a_client_that_could_bind_channels_may_sign_in() -> None:
    """`y` goes into the proof as it was sent."""
    exchange = Exchange(PENCIL, NONCE)
    first = exchange.opened(FIRST.replace(b"n,,", b"y,,"))
    without = b"c=eSws,r=" + WHOLE
    said = FIRST[3:] + b"," + first + b"," + without
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", PENCIL.salt, 4096)
    key = hmac.digest(salted, b"Client Key", "sha256")
    proof = bytes(
        a ^ b for a, b in zip(key, hmac.digest(PENCIL.stored_key, said, "sha256"), strict=True)
    )
    assert exchange.closed(without + b",p=" + base64.b64encode(proof)) is not None


@pytest.mark.parametrize(
    "first",
    [FIRST.replace(b"n,,", b"p=tls-server-end-point,,"), b"n,,n=user", b"", b"n,,n=u,r=a,b"],
)
def test_other_first_messages_are_refused(first: bytes) -> None:
    with pytest.raises(WireError):
        Exchange(PENCIL, NONCE).opened(first)


@pytest.mark.parametrize(
    "data",
    [b"", b"SCRAM-SHA-1\0\0\0\0\0", b"SCRAM-SHA-256-PLUS\0\0\0\0\0", b"SCRAM-SHA-256\0\0\0\0\1"],
)
def test_other_mechanisms_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        mechanism_and_first(data)


def test_the_first_message_is_cut_out() -> None:
    assert mechanism_and_first(b"SCRAM-SHA-256\0\0\0\0\3abc") == b"abc"


def test_what_is_wrong_is_not_told() -> None:
    assert wrong_token("ada").code == "28P01"
    assert "user" in wrong_token("ada").hint
