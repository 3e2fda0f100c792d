"""One signed-in client: messages in, replies out, without sockets.

The simple and the extended protocol run the same statements. After an error in the extended
protocol, messages are ignored until Sync; after an error in a transaction, statements are refused
until its end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from sparseq.base.cancellation import Cancellation
from sparseq.base.errors import QueryCancelError, TimedOut
from sparseq.pgwire import messages as m
from sparseq.pgwire import server_messages
from sparseq.pgwire.client_state import FAILED, INSIDE, Portal, State
from sparseq.pgwire.pg_values import parameter
from sparseq.pgwire.results import StatementResult, copy_out, describe_rows, rows
from sparseq.pgwire.run_statement import Runner, bound
from sparseq.pgwire.selects import Look, Selects, failure
from sparseq.pgwire.sql_tokens import split
from sparseq.pgwire.statement_kinds import MOST_TEXT, SqlStatement, StatementForm
from sparseq.pgwire.wire_errors import (
    CANCELLED,
    PROTOCOL_VIOLATION,
    SHUTTING_DOWN,
    TOO_LARGE,
    WireError,
)
from sparseq.server.service import Service
from sparseq.server.tokens import Principal

LOG = logging.getLogger("sparseq.pgwire")
T = TypeVar("T")
Send = Callable[[bytes], Awaitable[None]]


class Session:
    """The protocol, from the first message after authentication.

    Args:
        service: Answers questions.
        who: The signed-in user.
        state: The state, with the settings of the client's start-up packet.
        look: The session's view of the catalogue.
        send: Sends replies; it may wait for a slow client.

    Attributes:
        over: True if the client has terminated, or the connection must end.
    """

    def __init__(
        self, service: Service, who: Principal, state: State, look: Look, send: Send
    ) -> None:
        self.state = state
        self._send, self._look = send, look
        self._running = Runner(state, Selects(service, who, state, look))
        self._work: Cancellation | None = None
        self._skipping = False
        # a portal to be described, once the next message is known
        self._deferred: str | None = None
        self.over = False

    async def greet(self, process: int, secret: int) -> None:
        """Send the parameters that a client needs after authentication."""
        told = [server_messages.parameter(*one) for one in self.state.settings.reported()]
        await self._send(b"".join([*told, server_messages.key(process, secret)]))
        await self._ready()

    @property
    def idle(self) -> bool:
        """True if no statement runs."""
        return self._work is None

    def cancel(self) -> None:
        """Cancel the running statement; a question that is committed already is answered."""
        if self._work is not None:
            self._work.cancel()

    async def broken(self, error: WireError) -> None:
        """Answer a message that could not be read."""
        await self._failure(error, "")
        if not error.fatal and not self._skipping:
            await self._ready()

    async def take(self, message: m.Message) -> None:
        """Handle a message, and reply."""
        if isinstance(message, m.Terminate):
            self.over = True
            return
        if self._skipping and not isinstance(message, m.Sync):
            return
        text = message.text if isinstance(message, m.SimpleQuery | m.Parse) else ""
        try:
            if isinstance(message, m.SimpleQuery):
                await self._describe_deferred(message)
                await self._simple(message.text)
            else:
                await self._run_extended_message(message)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            if not isinstance(error, WireError):
                LOG.debug("a statement failed: %s", type(error).__name__)
            await self._failure(error, text)
            self._deferred = None
            self._skipping = not isinstance(message, m.SimpleQuery | m.Sync)
        if isinstance(message, m.SimpleQuery | m.Sync) and not self.over:
            self._skipping = False
            await self._ready()

    async def _failure(self, error: Exception, text: str) -> None:
        told = failure(error, text)
        if self.state.status == INSIDE:
            self.state.status = FAILED
        await self._tell()
        await self._send(server_messages.error(told))
        self.over = self.over or told.fatal

    async def _ready(self) -> None:
        self.state.series_ends()
        await self._tell()
        await self._send(server_messages.ready(self.state.status))

    async def _tell(self) -> None:
        """Send notices, and settings that changed."""
        told, self.state.notices = self.state.notices, []
        told += [server_messages.parameter(*one) for one in self.state.settings.news()]
        if told:
            await self._send(b"".join(told))

    # The simple protocol.

    async def _simple(self, text: str) -> None:
        self.state.portals.pop("", None)
        if len(text) > 2 * MOST_TEXT:
            raise WireError(TOO_LARGE, f"{len(text):,} letters in one message", "send fewer")
        statements = split(text)
        if not statements:
            await self._send(server_messages.EMPTY)
        for one in statements:
            portal = Portal(SqlStatement.of(one))
            await self._do_in_time(self._running.run(portal))
            assert portal.result is not None
            if portal.result.table is not None and portal.result.copying is None:
                await self._tell()
                await self._send(describe_rows(portal.result.table.schema, ()))
            await self._sent(portal, None)

    # The extended protocol.

    async def _run_extended_message(self, message: m.Message) -> None:
        await self._describe_deferred(message)
        match message:
            case m.Parse(name, text, types):
                prepared = self._running.prepared(text, types)
                if not name:
                    self.state.prepared.pop("", None)
                self.state.prepare(name, prepared)
                await self._send(server_messages.PARSED)
            case m.Bind():
                self._bind(message)
                await self._send(server_messages.BOUND)
            case m.Describe("S", name):
                await self._describe_statement(name)
            case m.Describe(_, name):
                self.state.portal(name)
                self._deferred = name
            case m.Execute(name, count):
                await self._execute(name, count)
            case m.Close(kind, name):
                (self.state.prepared if kind == "S" else self.state.portals).pop(name, None)
                await self._send(server_messages.CLOSED)
            case m.Flush() | m.Sync() | m.Copy():
                pass
            case m.FunctionCall():
                raise WireError("0A000", "functions are not called by number here")
            case _:
                said = "this message is not valid here"
                raise WireError(PROTOCOL_VIOLATION, said, fatal=True)

    def _bind(self, message: m.Bind) -> None:
        prepared = self.state.statement(message.statement)
        self._running.check_alive(prepared.statement)
        values, formats = message.values, message.formats
        each = list(formats) if len(formats) == len(values) else [*(formats or (0,))] * len(values)
        if len(values) != len(prepared.types):
            said = f"{len(values)} values are bound; the statement has {len(prepared.types)}"
            raise WireError(PROTOCOL_VIOLATION, said)
        read = [parameter(*one) for one in zip(values, prepared.types, each, strict=True)]
        if not message.portal:
            self.state.portals.pop("", None)
        statement = bound(prepared.statement, read)
        self.state.open(message.portal, Portal(statement, message.result_formats))

    async def _describe_statement(self, name: str) -> None:
        prepared = self.state.statement(name)
        self.state.finds_by_place = True
        schema = await self._do_in_time(self._running.schema_of(prepared))
        await self._tell()
        await self._send(server_messages.parameter_types(prepared.types))
        await self._send(describe_rows(schema, ()))

    async def _describe_deferred(self, message: m.Message) -> None:
        """Describe a portal now, unless it runs next: then its result describes it."""
        name = self._deferred
        if name is not None and not (isinstance(message, m.Execute) and message.portal == name):
            self._deferred = None
            await self._describe_portal(self.state.portal(name))

    async def _describe_portal(self, portal: Portal) -> None:
        portal.schema = await self._do_in_time(self._running.schema(portal.statement))
        await self._tell()
        await self._send(describe_rows(portal.schema, portal.formats))

    async def _execute(self, name: str, count: int) -> None:
        deferred, self._deferred = self._deferred is not None, None
        portal = self.state.portal(name)
        if portal.statement.form is StatementForm.EMPTY:
            await self._send(server_messages.NO_DATA * deferred + server_messages.EMPTY)
            return
        await self._do_in_time(self._running.run(portal))
        if deferred and portal.result is not None:
            table = portal.result.table if portal.result.copying is None else None
            portal.schema = None if table is None else table.schema
            await self._tell()
            await self._send(describe_rows(portal.schema, portal.formats))
        await self._sent(portal, count if count > 0 else None)

    async def _sent(self, portal: Portal, count: int | None) -> None:
        """Send the next rows of a portal that ran, and its completion."""
        result = portal.result
        assert result is not None
        await self._tell()
        if result.table is None:
            await self._send(server_messages.complete(result.tag))
            return
        if result.copying is not None:
            await self._send_all(copy_out(result.table, result.copying))
            await self._send(server_messages.complete(f"COPY {result.table.num_rows}"))
            return
        part, reached = portal.take(count)
        await self._send_all(rows(part, portal.formats))
        await self._send(
            server_messages.SUSPENDED
            if reached
            else server_messages.complete(_tag(result, part.num_rows))
        )

    async def _send_all(self, blocks: Any) -> None:
        for block in blocks:
            await self._send(block)
            # other clients are served between blocks, even if this one reads fast
            await asyncio.sleep(0)

    async def _do_in_time(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a statement; its client or its time-out can cancel it.

        Cancelled work reports it itself; if it doesn't end soon, the client no longer waits.
        """
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        with Cancellation(self.state.settings.timeout) as self._work:
            task = asyncio.ensure_future(work)
            waiting = asyncio.ensure_future(stopped.wait())
            try:
                with (
                    suppress(QueryCancelError),  # ended at once: it may be done, too
                    self._work.interrupts(partial(loop.call_soon_threadsafe, stopped.set)),
                ):
                    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.wait({task}, timeout=SECONDS_TO_END)
                if not task.done():
                    raise self._work.error or QueryCancelError()
                return task.result()
            except QueryCancelError as error:
                raise _cancel_error(error, task.done()) from None
            finally:
                self._work = None
                waiting.cancel()
                task.cancel()


def _cancel_error(error: QueryCancelError, ended: bool) -> WireError:
    """Return the error for a client in PostgreSQL's words, with the outcome of the question."""
    if error.hint and not isinstance(error, TimedOut):
        return WireError(SHUTTING_DOWN, error.message, error.hint, fatal=True)
    told = "statement timeout" if isinstance(error, TimedOut) else "user request"
    charged = error.message.partition("; ")[2] or "nothing was charged"
    hint = charged if ended else _MAY_BE
    return WireError(CANCELLED, f"canceling statement due to {told}", hint)


SECONDS_TO_END = 10.0
"""The time that a client waits for the end of a cancelled statement."""
_MAY_BE = (
    "a question may be answered all the same, and can be read back: SELECT * FROM released.releases"
)


def _tag(result: StatementResult, count: int) -> str:
    return result.tag if result.tag in ("SHOW", "EXPLAIN") else f"{result.tag} {count}"
