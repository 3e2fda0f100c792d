"""DuckDB's dialect as an object: sqlglot makes a new one each time that it is given a name."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from sparseq.base.sql_text import quote

DUCKDB = DuckDB()
"""Writes expressions as DuckDB's SQL; it has no state."""


def sql_of(e: exp.Expr) -> str:
    """Return an expression as DuckDB's SQL.

    Quoted columns, which are most of what is written, need no generator and no copy.

    Example:
        >>> sql_of(exp.column("n", "t", quoted=True)), sql_of(exp.column("n"))
        ('"t"."n"', 'n')
    """
    if type(e) is exp.Column and not e.comments:
        parts = [part for part in e.args.values() if part]
        if all(type(p) is exp.Identifier and p.quoted and not p.comments for p in parts):
            return ".".join(quote(part.name) for part in e.parts)
    return e.sql(DUCKDB)
