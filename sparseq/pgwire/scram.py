"""SCRAM-SHA-256 from the server's side (RFC 5802, RFC 7677), without channel binding.

The client proves that it knows the token without sending it, and the server that it knows the
verifier. `y` of a client (it supports channel binding, and thinks that the server does not) is
accepted like `n`, because this server does not.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass, field

from sparseq.pgwire.wire_errors import INVALID_PASSWORD, PROTOCOL_VIOLATION, WireError
from sparseq.server.tokens import Verifier

MECHANISM = "SCRAM-SHA-256"
_FIRST = re.compile(
    r"(?P<gs2>(?P<bind>[ny]|p=[^,]*),[^,]*,)(?P<bare>n=[^,]*,r=(?P<nonce>[!-+\--~]+))"
)
_FINAL = re.compile(r"(?P<without>c=(?P<bound>[^,]*),r=(?P<nonce>[!-+\--~]+)),p=(?P<proof>[^,]+)")


@dataclass
class Exchange:
    """One authentication: `opened`, then `closed`, each with the client's message.

    Attributes:
        verifier: The verifier of the name; for an unknown name, one that no token matches.
        nonce: The server's part, random for each exchange, printable and without commas.
    """

    verifier: Verifier
    nonce: str
    _gs2: str = field(default="", init=False)
    _said: str = field(default="", init=False)
    _whole_nonce: str = field(default="", init=False)

    def opened(self, data: bytes) -> bytes:
        """Return the server's first message, for the client's first.

        Raises:
            WireError: The message is invalid.
        """
        first = _FIRST.fullmatch(_ascii(data))
        if first is None:
            raise _broken()
        if first["bind"].startswith("p"):
            raise WireError(
                PROTOCOL_VIOLATION,
                "channel binding was not offered",
                "channel_binding=prefer",
                fatal=True,
            )
        self._gs2, self._whole_nonce = first["gs2"], first["nonce"] + self.nonce
        salt = base64.b64encode(self.verifier.salt).decode()
        answer = f"r={self._whole_nonce},s={salt},i={self.verifier.iterations}"
        self._said = f"{first['bare']},{answer}"
        return answer.encode()

    def closed(self, data: bytes) -> bytes | None:
        """Return the server's last message, for the client's last; None: the token is wrong.

        Raises:
            WireError: The message is invalid, or belongs to another exchange.
        """
        final = _FINAL.fullmatch(_ascii(data))
        if final is None or not self._said:
            raise _broken()
        bound = base64.b64encode(self._gs2.encode()).decode()
        if final["bound"] != bound or final["nonce"] != self._whole_nonce:
            raise _broken()
        signed = f"{self._said},{final['without']}".encode()
        signature = hmac.digest(self.verifier.stored_key, signed, "sha256")
        proof = _base64(final["proof"])
        if len(proof) != len(signature):
            raise _broken()
        key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(key).digest(), self.verifier.stored_key):
            return None
        shown = hmac.digest(self.verifier.server_key, signed, "sha256")
        return b"v=" + base64.b64encode(shown)


def mechanism_and_first(data: bytes) -> bytes:
    """Return the client's first message from SASLInitialResponse.

    Raises:
        WireError: It is invalid, or requests another mechanism.
    """
    name, end, rest = data.partition(b"\0")
    if not end or len(rest) < 4:
        raise _broken()
    if name != MECHANISM.encode():
        raise WireError(PROTOCOL_VIOLATION, f"only {MECHANISM} was offered", fatal=True)
    if int.from_bytes(rest[:4], "big", signed=True) != len(rest) - 4:
        raise _broken()
    return rest[4:]


def wrong_token(name: str) -> WireError:
    """Return the error for a wrong name or token, without saying which."""
    said = f'password authentication failed for user "{name[:63]}"'
    hint = "the user is the token's name, the password is the token"
    return WireError(INVALID_PASSWORD, said, hint, fatal=True)


def _ascii(data: bytes) -> str:
    return data.decode("ascii", "replace")


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _broken() from None


def _broken() -> WireError:
    return WireError(PROTOCOL_VIOLATION, "the SCRAM message can't be read", fatal=True)
