"""Neighbouring stores, each served by PostgreSQL's protocol: every byte that a client gets.

The same messages go to the four servers (see `neighbours`), with the first one's outputs frozen in
the others: questions in every form of the protocol, the handling of their answers, and the look-ups
of tools. Replies must be equal to the last byte: rows, types, tags, notices and errors. Charges are
compared as for every question.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from checks.audit.comparison import Finding, Terms, compare
from checks.audit.neighbours import VARIANTS, world
from checks.audit.queries import Questions
from checks.audit.trial import Act, Trial
from checks.language import functions
from sparseq.pgwire import messages as m
from sparseq.pgwire._duckdb.catalogue import Catalogue
from sparseq.pgwire.client_state import State
from sparseq.pgwire.pg_session import Session
from sparseq.pgwire.pg_settings import Settings
from sparseq.server.service import Service
from sparseq.server.tokens import Role, Tokens
from sparseq.store.store import Store

LENGTH = 60
"""What a world's servers are sent, one after the other."""
COLUMNS = ("who", "n", "k", "x", "a", "s", "w", "b", "day", "at")
LOOKS = (
    "SELECT * FROM t",
    "SELECT * FROM t LIMIT 10",
    "SELECT * FROM v ORDER BY 1 DESC LIMIT 1",
    "SELECT DISTINCT {c} FROM t",
    "SELECT {c} FROM t ORDER BY 1 LIMIT 100",
    "SELECT min({c}), max({c}) FROM t",
    "SELECT {c}, count(*) FROM t GROUP BY {c}",
    "SELECT {c} FROM t WHERE who = 5000",
    "SELECT count({c}) FROM t",
    "TABLE t",
    "SELECT substring({c}, 1, 1234) FROM t LIMIT 10000",
    "SELECT 1 FROM t WHERE {c} IS NULL",
    "SELECT reltuples, relpages FROM pg_class WHERE relname = 't'",
    "SELECT * FROM pg_stats WHERE tablename = 't'",
    "SELECT pg_relation_size('t')",
    "SELECT n_live_tup FROM pg_stat_user_tables",
    "SELECT * FROM information_schema.columns",
    "SELECT release, query, coordinates, sigma FROM released.releases",
    "SELECT * FROM released.r1",
    "SELECT * FROM budget.guarantee",
    "SELECT * FROM p",
    "SELECT label, sum(weight) FROM p GROUP BY 1",
)
WRAPS = (
    "{q}",
    "{q}",
    "{q}",
    "EXPLAIN {q}",
    "EXPLAIN (ANALYZE) {q}",
    "COPY ({q}) TO STDOUT",
    "COPY ({q}) TO STDOUT (FORMAT csv, HEADER)",
    "SELECT * FROM ({q}) AS i ORDER BY 1 LIMIT 1",
    "SELECT count(*) FROM ({q}) AS i",
    "WITH i AS ({q}) SELECT max(a0) FROM i",
    "BEGIN; DECLARE c CURSOR FOR {q}; FETCH 2 FROM c; FETCH ALL FROM c; COMMIT",
    "{q}; {q}",
    "BEGIN; {q}; SELECT nothing; {q}; ROLLBACK",
    "PREPARE z AS {q}; EXECUTE z; DEALLOCATE z",
)
SETTINGS = (
    "SET sparseq.fresh = on",
    "SET sparseq.fresh = on",
    "SET sparseq.fresh = off",
    "SET sparseq.precision = '2%'",
    "RESET sparseq.precision",
    "SET sparseq.price = 4",
    "RESET sparseq.price",
    "SET sparseq.request_id = 'r{n}'",
    "RESET sparseq.request_id",
    "SET statement_timeout = 0",
    "SHOW ALL",
    "DISCARD ALL",
)


@dataclass
class Client:
    """A session in process, without sockets, and the bytes that it was sent."""

    session: Session
    sent: bytearray = field(default_factory=bytearray)

    async def take(self, messages: list[m.Message]) -> bytes:
        """Send messages; return the replies."""
        for message in messages:
            await self.session.take(message)
        replies = bytes(self.sent)
        self.sent.clear()
        return replies


async def connected(store: Store) -> tuple[Service, Catalogue, Client]:
    """Serve a store to one client."""
    tokens = Tokens(None)
    tokens.create("ada", Role.ANALYST)
    service = Service(store, tokens, "shop")
    catalogue = Catalogue(service.catalog, "shop", service.public_rows)
    state = State(Settings("ada"))
    clients: list[Client] = []

    async def send(data: bytes) -> None:
        clients[0].sent += data

    look = catalogue.look("ada", state.settings)
    clients.append(Client(Session(service, service.named("ada"), state, look, send)))
    return service, catalogue, clients[0]


def messages(rng: random.Random, questions: Questions) -> tuple[str, list[m.Message]]:
    """Return the next messages and their description."""
    kind = rng.random()
    if kind < 0.1:
        text = rng.choice(SETTINGS).format(n=rng.randrange(3))
    elif kind < 0.4:
        text = rng.choice(LOOKS).format(c=rng.choice(COLUMNS))
    else:
        text = rng.choice(WRAPS).replace("{q}", questions.question().sql)
    if kind < 0.1 or ";" in text or rng.random() < 0.5:
        return text, [m.SimpleQuery(text), m.SimpleQuery("ROLLBACK")]
    binary, rows = (rng.randrange(2),), rng.choice((0, 0, 1, 2))
    name = rng.choice(("", "s"))
    sent: list[m.Message] = [m.Close("S", name), m.Parse(name, text)]
    if rng.random() < 0.5:
        sent.append(m.Describe("S", name))
    sent += [m.Bind("", name, (), (), binary), m.Describe("P", ""), m.Execute("", rows)]
    if rows:
        sent.append(m.Execute("", 0))
    return f"extended: {text}", [*sent, m.Sync()]


def run(trial: Trial) -> Iterator[Finding]:
    """Send the same to four servers; yield what breaks a rule, with all that was sent before."""
    here = world(trial.rng, trial.rng.choice(("rich", "rich", "poor")))
    questions = Questions(trial.rng, functions(), here.values(), trial.rng.choice((1, 1, 2, 3)))
    terms = Terms(here.options["kappa"], here.options["norm_budget"])
    with asyncio.Runner() as runner:
        stores = {v: here.open(v) for v in VARIANTS}
        served = {v: runner.run(connected(store)) for v, store in stores.items()}

        def step() -> tuple[str, Act]:
            text, sent = messages(trial.rng, questions)
            return text, lambda v, _: runner.run(served[v][2].take(sent))

        try:
            steps = (step() for _ in range(LENGTH))
            yield from trial.life(
                f"{here.options}", stores, steps, lambda s: compare(s, here.who, terms, here.path)
            )
        finally:
            for service, catalogue, _ in served.values():
                runner.run(service.close())
                catalogue.close()
