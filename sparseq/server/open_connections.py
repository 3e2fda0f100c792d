"""The open connections of a server, of all protocols: a limited number, in all and of one address.

Connections are counted when they are accepted, before TLS. A new connection never waits for others
to
close: if there are too many, the server closes the one that has waited longest without showing a
    request or a token (of the same address, if it has too many, otherwise of the address with the
    most waiting connections). So strangers who hold connections open close each other's, and
    `/healthz` is answered. If users have all connections, `RESERVE` more are accepted for requests
    that need no token.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from collections import Counter, OrderedDict
from dataclasses import dataclass

if sys.platform != "win32":
    import resource

MOST = 2_000
"""The maximum number of connections."""
OTHER_FILES = 200
"""Open files besides connections, including connections about to be accepted."""
LEAST = 16
RESERVE = 32
"""The number of connections that may wait, however many serve users."""
AT_ONCE, QUEUE = 32, 512
"""The number of connections accepted at once, and of those that queue for it."""


def most_connections() -> int:
    """Return the number of connections that this process can have open."""
    if sys.platform == "win32":
        return MOST
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST
    return max(min(MOST, soft - OTHER_FILES), LEAST)


@dataclass
class _Connection:
    """An open connection; `held` while it serves a request or a signed-in user."""

    address: str
    socket: socket.socket
    held: bool = False


class OpenConnections:
    """The connections of one server. Use it from one thread.

    Args:
        most: The maximum number of users' connections.
        each: The maximum number of connections of one address; by default half of `most`.

    Attributes:
        closed: The number of connections that were closed for others.

    Example:
        >>> connections = OpenConnections(most=100)
        >>> connections.most, connections.each, len(connections)
        (100, 50, 0)
    """

    def __init__(self, most: int | None = None, each: int | None = None) -> None:
        self.most = most_connections() if most is None else most
        self.each = max(self.most // 2, 1) if each is None else each
        self.closed = 0
        self._open: OrderedDict[int, _Connection] = OrderedDict()  # the longest waiting first
        self._of: Counter[str] = Counter()
        self._held: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def enter(self, connection: socket.socket, address: str) -> None:
        """Count a new connection, and close another one if there are too many."""
        if self._of[address] >= max(self.each, self._held[address] + RESERVE):
            self._close_one(address)
        if len(self._open) >= max(self.most, self._held.total() + RESERVE):
            waiting = {a: n - self._held[a] for a, n in self._of.items()}
            self._close_one(max(waiting, key=waiting.__getitem__))
        self._open[connection.fileno()] = _Connection(address, connection)
        self._of[address] += 1

    def leave(self, file: int) -> None:
        """Forget a closed connection."""
        if (one := self._open.pop(file, None)) is not None:
            self._held[one.address] -= one.held
            self._of[one.address] -= 1
            if not self._of[one.address]:
                del self._of[one.address], self._held[one.address]

    def hold(self, file: int) -> bool:
        """Record that a connection serves a user; return False if users have too many."""
        one = self._open.get(file)
        if one is None or one.held:
            return True
        if self._held.total() >= self.most or self._held[one.address] >= self.each:
            return False
        one.held = True
        self._held[one.address] += 1
        return True

    def let_go(self, file: int) -> None:
        """Record that a connection waits again."""
        one = self._open.get(file)
        if one is not None and one.held:
            one.held = False
            self._held[one.address] -= 1
            self._open.move_to_end(file)

    def _close_one(self, address: str) -> None:
        """Close the longest waiting connection of an address, which has at least one."""
        found = ((f, c) for f, c in self._open.items() if c.address == address and not c.held)
        file, one = next(found)
        self.leave(file)
        self.closed += 1
        with contextlib.suppress(OSError):  # the other side has closed it
            one.socket.shutdown(socket.SHUT_RDWR)


class ListeningSocket(socket.socket):
    """A listening socket whose connections are counted.

    Attributes:
        connections: The server's; set before the first is accepted.
    """

    connections: OpenConnections

    def listen(self, backlog: int = QUEUE) -> None:
        """Listen, with a queue longer than the number of connections accepted at once."""
        super().listen(max(backlog, QUEUE))

    def accept(self) -> tuple[socket.socket, object]:
        """Return the next connection; see `socket.socket.accept`."""
        accepted, address = super().accept()
        made = _CountedSocket(self.family, self.type, self.proto, accepted.detach())
        made.connections = self.connections
        self.connections.enter(made, str(address[0]))
        return made, address


class _CountedSocket(socket.socket):
    """A connection that is counted until it is closed."""

    connections: OpenConnections

    def close(self) -> None:
        """Close it; see `socket.socket.close`."""
        file = self.fileno()
        if file >= 0:
            self.connections.leave(file)
        super().close()
