"""Wrong tokens by address: after a number per minute, further ones get no reason.

A request without a token does not count: it asks how to sign in. Only failures are counted, of all
protocols together: a right token is always accepted, whatever else was tried. Nobody guesses 256
random bits; the limit bounds the work, and the audit log.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable

from sparseq.base.errors import ServerError, Why
from sparseq.server.audit import AuditLog

MOST_WRONG, SECONDS = 20, 60.0
MOST_LINES = 1_000
"""The maximum number of lines of the audit log per minute for wrong tokens."""
_MOST_PLACES = 10_000


class Door:
    """Counts wrong tokens, and writes lines about them: an event loop must not call it.

    Example:
        >>> door = Door(AuditLog(None), lambda: 0.0)
        >>> for _ in range(MOST_WRONG):
        ...     door.wrong("http", "192.0.2.1")
        >>> door.wrong("postgresql", "192.0.2.1")
        Traceback (most recent call last):
        sparseq.base.errors.ServerError: too many wrong tokens from this address
          hint: wait a minute
    """

    def __init__(self, audit: AuditLog, clock: Callable[[], float] = time.monotonic) -> None:
        self._audit, self._clock = audit, clock
        self._failed: dict[str, tuple[int, float]] = {}
        self._lines = (0, 0.0)  # written since then

    def wrong(self, protocol: str, peer: str) -> None:
        """Record a wrong token.

        Raises:
            ServerError: There were too many from this address.
        """
        place, now = _place(peer), self._clock()
        number, since = self._failed.pop(place, (0, now))
        if now - since > SECONDS:
            number, since = 0, now
        self._failed[place] = number + 1, since
        if len(self._failed) > _MOST_PLACES:
            del self._failed[next(iter(self._failed))]
        if number in (0, MOST_WRONG) and self._line(now):  # once a minute, and once more
            self._audit.add([{"what": "wrong token", "who": "", "source": f"{protocol} {peer}"}])
        if number >= MOST_WRONG:
            raise ServerError(Why.BUSY, "too many wrong tokens from this address", "wait a minute")

    def _line(self, now: float) -> bool:
        """Tell whether a line may be written, and count it."""
        written, since = self._lines
        self._lines = (1, now) if now - since > SECONDS else (written + 1, since)
        return self._lines[0] <= MOST_LINES


def _place(peer: str) -> str:
    """Return the unit of counting: an address, or the network of one host in IPv6.

    >>> _place("2001:db8::1") == _place("2001:db8::ffff:2"), _place("192.0.2.1")
    (True, '192.0.2.1')
    """
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return peer
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False))
