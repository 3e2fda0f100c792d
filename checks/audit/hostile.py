"""Hostile texts: SQL, keys, names and values that a parser, a reader or a terminal trips over.

The answer, or the refusal, is the same on neighbours, in words of ours; none hangs; and nothing
that a terminal would obey comes through, from whatever it was made.
"""

from __future__ import annotations

import multiprocessing
import re
import tempfile
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa
from click.testing import CliRunner

import sparseq
from checks.audit.comparison import Finding, Terms, compare
from checks.audit.neighbours import Quartet
from checks.audit.planted_stores import SMALL
from checks.audit.seams import Watching
from checks.audit.search import asked
from sparseq.base.errors import SparseqError
from sparseq.cli.app import sparseq as command

PATIENCE = 30.0
"""Seconds after which a query hangs."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
SQL = (
    "",
    ";",
    "SELECT",
    "SELECT 1",
    "SELECT * FROM t",
    "SELECT count(*) FROM t; DROP TABLE t",
    "SELECT count(*) FROM t -- \x00",
    'SELECT count(*) FROM "t\x00"',
    "SELECT 'a",
    "\ufeffSELECT",
    "SELECT count(*) FROM read_csv('/etc/passwd')",
    "SELECT count(*) FROM '/etc/passwd'",
    "SELECT count(*) FROM ledger.users",
    "SELECT count(*) FROM by_user.t",
    "ATTACH 'x' AS y",
    "COPY t TO '/tmp/x'",
    "PRAGMA database_list",
    "SET threads = 1",
    "INSTALL httpfs",
    "SELECT getenv('HOME')",
    "SELECT current_setting('threads')",
    "SELECT count(*) FROM duckdb_tables()",
    "SELECT (SELECT count(*) FROM p) FROM t",
    "SELECT (SELECT max(k) FROM p) AS m, count(*) FROM t",
    "SELECT count(*) FROM t WHERE n = -170141183460469231731687303715884105728::HUGEINT",
    "SELECT count(*) FROM t WHERE CAST(n AS HUGEINT) * 170141183460469231731687303715884105727 > 0",
    "SELECT count(*) FROM t WHERE day < DATE 'infinity'",
    "SELECT count(*) FROM t WHERE day = '-infinity'",
    "SELECT count(*) FROM t WHERE CAST(x AS DECIMAL(38, 400)) > 0",
    "SELECT count(*) FROM t WHERE CAST(x AS DECIMAL(99999999999999999999, 0)) > 0",
    "SELECT count(*) FROM t WHERE x > 1e999999",
    "SELECT count(*) FROM t WHERE n > " + "9" * 400,
    "SELECT count(*) FROM t WHERE s = '" + "x" * 100_000 + "'",
    "SELECT count(*) FROM t WHERE " + "NOT " * 3_000 + "b",
    "SELECT count(*) FROM t WHERE n IN (" + ", ".join(map(str, range(3_000))) + ")",
    "SELECT count(*) FROM t WHERE " + " OR ".join(f"n = {i}" for i in range(800)),
    "SELECT " + "(" * 2_000 + "count(*)" + ")" * 2_000 + " FROM t",
    'SELECT count(*) AS "\x1b[31m" FROM t',
    "SELECT '\x1b]0;title\x07' AS g, count(*) FROM t",
    "SELECT count(*) AS \u202etxt FROM t",
    "SELECT 'caf\u0301' AS g, count(*) AS n FROM t GROUP BY g",
    "SELECT s, count(*) FROM t WHERE s IN ('\x1b[2J', '\r', '\x9b31m') GROUP BY s",
    "SELECT count(*) FROM t WHERE s LIKE '" + "%a" * 2_000 + "'",
    "SELECT count(*) FROM t WHERE substring(s, -9223372036854775808, 9223372036854775807) = 'a'",
    "SELECT count(*) FROM t WHERE left(s, 9223372036854775807) = repeat('a', 1000000000)",
    "SELECT count(*) FROM t WHERE day + INTERVAL 99999999999 YEAR > DATE '2024-01-01'",
    "SELECT count(*) FROM t WHERE make_date(2147483647, 12, 31) > day",
    "SELECT count(*) FROM t "
    "WHERE extract(isoyear FROM DATE '1970-01-01' - 2147483646 + 1200 - CAST(n AS INTEGER)) = 5",
    "SELECT count(*) FROM t WHERE round(x, 2147483647) > 0",
    "SELECT count(*) FROM t WHERE pow(n, 9223372036854775807) > 0",
    "SELECT histogram(x, [1, 1]) FROM t",
    "SELECT histogram(x, [NULL, 1]) FROM t",
    "SELECT quantile(x, 1e308, [0, 1]) FROM t",
    "SELECT count(*) FROM t LIMIT -1",
    "SELECT sum(x) FILTER (WHERE count(*) > 1) FROM t",
    "SELECT count(*) FROM t GROUP BY 1e9",
)
KEYS = (
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "a\rb",
    "\u202eevil",
    "\x9b2J",
    "tab\tbed",
    "\x00",
)


def count() -> int:
    """Return how many texts there are."""
    return len(SQL) + len(KEYS)


def findings() -> list[Finding]:
    """Return what hostile texts do that they may not."""
    return [*_queries(), *_keys()]


def _queries() -> Iterator[Finding]:
    """Ask all of them in another process, which is killed if one hangs."""
    start = 0
    spawn = multiprocessing.get_context("spawn")
    while start < len(SQL):
        here, there = spawn.Pipe(duplex=False)
        process = spawn.Process(target=_ask_from, args=(start, there), daemon=True)
        process.start()
        there.close()
        try:
            while start < len(SQL):
                if not here.poll(PATIENCE):
                    yield Finding("hangs", f"no answer for {PATIENCE:g} s", SQL[start][:200])
                    start += 1
                    break
                found: list[Finding] = here.recv()
                yield from found
                start += 1
        except EOFError:  # the process itself went
            yield Finding("ends the process", "", SQL[start][:200])
            start += 1
        finally:
            process.kill()
            process.join()


def _ask_from(start: int, out: Connection) -> None:
    terms = Terms(SMALL.options["kappa"], SMALL.options["norm_budget"])
    with Watching().entered() as watching, Quartet(SMALL) as quartet:
        for text in SQL[start:]:
            seen = asked(watching, quartet, text)
            out.send(
                [Finding(f.rule, f.detail, text[:200]) for f in compare(seen, SMALL.who, terms)]
            )


def _keys() -> Iterator[Finding]:
    """Keys that a curator declared, and columns, as the command line shows them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s"
        rows = pa.table({"who": [1, 2], "s": list(KEYS[:2])})
        try:
            store = sparseq.create(path, {"t": rows}, user="who", keys={"s": list(KEYS)}, seed=1)
            store.close()
        except SparseqError:
            return
        for key in KEYS:
            text = f"SELECT s, count(*) AS n FROM t WHERE s <> '{key}' GROUP BY s"
            shown = CliRunner().invoke(command, ["sql", str(path), text])
            raw = _CONTROL.search(shown.output.replace("\n", ""))
            if raw is not None:
                yield Finding("control characters", repr(shown.output[:200]), repr(key))
            if shown.exception is not None and not isinstance(shown.exception, SystemExit):
                yield Finding("raw error", repr(shown.exception)[:200], repr(key))
