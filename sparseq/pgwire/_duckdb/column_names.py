"""PostgreSQL's names of unnamed columns: `count`, `int4`, `?column?`."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp


def names_of(tree: exp.Expr) -> list[str]:
    """Return PostgreSQL's names of the columns of a SELECT; "": the column keeps its own."""
    select = _first(tree)
    return [_named(e)[1] for e in select.expressions] if select is not None else []


def _first(tree: exp.Expr) -> exp.Select | None:
    """Return the SELECT that names the columns: the first one of a UNION."""
    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    return tree if isinstance(tree, exp.Select) else None


def _named(e: exp.Expr) -> tuple[int, str]:
    """Return a column's name, and its rank: 2 for a column or function, 1 for a type, 0 for none.

    This follows FigureColnameInternal of PostgreSQL's parser.
    """
    match e:
        case exp.Alias() | exp.Star():
            return 2, ""
        case exp.Column():
            return (2, "*") if isinstance(e.this, exp.Star) else (2, str(e.name))
        case exp.Cast():
            sure, name = _named(e.this)
            type = e.to.sql("postgres").lower().replace("[]", "")
            return (sure, name) if sure == 2 else (1, _OF_TYPES.get(type, type.split(".")[-1]))
        case exp.Dot():
            return _named(e.expression)
        case exp.Anonymous():
            return 2, str(e.name).lower()
        case exp.Paren():
            return _named(e.this)
        case exp.Subquery():
            select = _first(e)
            inner = select.expressions[0] if select is not None else None
            return (2, inner.alias or _named(inner)[1]) if inner is not None else (0, "?column?")
        case exp.Case():
            default = e.args.get("default")
            sure, name = _named(default) if default is not None else (0, "")
            return (sure, name) if sure == 2 else (1, "case")
        case exp.Exists() | exp.Array():
            return 2, str(e.key)
        case exp.Bracket():
            return _named(e.this)
        case exp.Connector() | exp.Binary() | exp.Unary():
            return 0, "?column?"
        case exp.Func():
            name = e.sql_name().lower()
            return 2, _OF_FUNCTIONS.get(name, name)
    return 0, "?column?"


_OF_FUNCTIONS = {
    "group_concat": "string_agg",
    "current_version": "version",
    "session_user": "session_user",
}
_OF_TYPES = {
    "int": "int4",
    "integer": "int4",
    "bigint": "int8",
    "smallint": "int2",
    "double precision": "float8",
    "boolean": "bool",
    "varchar": "varchar",
}


def rename(tree: exp.Expr, names: Sequence[str]) -> None:
    """Give the columns of a SELECT their names; "": the column keeps its own."""
    select = _first(tree)
    if select is not None and len(select.expressions) == len(names):
        select.set(
            "expressions",
            [
                exp.alias_(e, name, quoted=True)
                if name not in ("", "*") and not isinstance(e, exp.Column)
                else e
                for e, name in zip(select.expressions, names, strict=True)
            ],
        )
