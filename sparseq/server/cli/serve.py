"""`sparseq serve` and `mcp`: a store at an address, and for an agent."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path

import click

import sparseq
from sparseq.base.errors import ParameterError, SparseqError
from sparseq.base.texts import shown
from sparseq.cli.options import FilePath, command, store_argument
from sparseq.cli.text import say
from sparseq.server.audit import AuditLog
from sparseq.server.http.request_log import log_as_json
from sparseq.server.mcp import handle, over_lines, told
from sparseq.server.service import Service
from sparseq.server.tokens import Role, Tokens
from sparseq.store.address import address


@command(short_help="Serve a store to clients with tokens.")
@store_argument
@click.option("--http", metavar="HOST:PORT", help="Listen there for HTTP: programs and browsers.")
@click.option("--pg", metavar="HOST:PORT", help="Listen there for PostgreSQL's protocol.")
@click.option(
    "--tls-cert",
    type=FilePath(),
    metavar="FILE",
    help="Certificate, PEM; needed unless only this machine can connect.",
)
@click.option("--tls-key", type=FilePath(), metavar="FILE", help="Its key, PEM.")
@click.option("--no-tls", is_flag=True, help="Something in front of the server does TLS.")
@click.option(
    "--url",
    default="",
    metavar="URL",
    help="Where browsers find it, if a proxy in front asks for it by another name.",
)
@click.option(
    "--backups",
    type=FilePath(file_okay=False, exists=True),
    metavar="DIR",
    help="Where copies go that curators ask for.",
)
@click.option(
    "--statement-timeout",
    "timeout",
    type=float,
    metavar="SECONDS",
    help="Most that a question may take until it is committed. [default: no limit]",
)
@click.option(
    "--read-timeout",
    type=click.FloatRange(0),
    default=120,
    show_default=True,
    metavar="SECONDS",
    help="Most that reading a question's rows may take; 0: no limit.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How the log is written; json has a line for each request, with its id.",
)
@click.option(
    "--jobs",
    type=FilePath(dir_okay=False),
    metavar="FILE",
    help="What the server does by itself, in TOML: series, replays, backups.",
)
def serve(
    store: Path,
    http: str | None,
    pg: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    no_tls: bool,
    url: str,
    backups: Path | None,
    timeout: float | None,
    read_timeout: float,
    log_format: str,
    jobs: Path | None,
) -> None:
    """Serve STORE: clients with a token ask it; nobody else has the file meanwhile.

    SIGTERM takes no new question, cancels what is not committed after 5 s, and ends with code 0.
    That a question took longer than a time-out can depend on rows, as its time can.

    \b
    Examples:
      sparseq serve shop.sparseq --http 127.0.0.1:8080
      sparseq serve shop.sparseq --http 0.0.0.0:443 --tls-cert cert.pem --tls-key key.pem
    """
    try:
        from sparseq.server.serve import Address, Serving
        from sparseq.server.serve import serve as run
    except ImportError as missing:
        raise ParameterError(
            f"a server needs a package that is not installed: {missing.name}",
            "pip install 'sparseq[server]'",
        ) from None

    if log_format == "json":
        log_as_json()
    places = [None if text is None else Address.parse(text) for text in (http, pg)]
    place = Serving(
        store,
        places[0],
        places[1],
        tls_cert,
        tls_key,
        no_tls,
        backups,
        jobs,
        url.rstrip("/").lower(),
        timeout,
        read_timeout or None,
    )
    asyncio.run(run(place, lambda said: say(f"{shown(address(store))} is served at {said}")))


@command(short_help="Tools for an agent, by standard input and output (MCP).")
@click.argument("store", required=False, type=FilePath())
@click.option(
    "--server",
    metavar="URL",
    help="Use the server there, with the token in SPARSEQ_TOKEN; then no STORE is given.",
)
def mcp(store: Path | None, server: str | None) -> None:
    """Let an agent ask STORE, or a server, by the Model Context Protocol.

    It speaks JSON-RPC, line by line, by standard input and output. An agent has a quota: that
    of its token, else 20 new answers a day, and a quarter of the planned answers' price.

    \b
    Examples:
      sparseq mcp --server https://numbers.example.org
      sparseq mcp shop.sparseq
    """
    if (store is None) == (server is None):
        raise click.UsageError("give a STORE, or a --server")
    if store is not None:
        asyncio.run(_agent(store))
        return
    with sparseq.connect(str(server), token="") as con:

        async def asked(line: bytes) -> str | None:
            try:
                return con.post("/mcp", line).decode() or None
            except SparseqError as error:
                return told(line, error)

        asyncio.run(over_lines(asked, sys.stdin.buffer, sys.stdout))


async def _agent(store: Path) -> None:
    service = Service(sparseq.connect(store), Tokens(None), audit=AuditLog.beside(store))
    try:
        who = service.signed_in(service.tokens.create("agent", Role.ANALYST), source="mcp")
        await over_lines(partial(handle, service, who), sys.stdin.buffer, sys.stdout)
    finally:
        await service.close()
