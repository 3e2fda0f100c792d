"""Unique names for a question's columns, as close as possible to the written ones.

SQL engines answer `SELECT x, x` and `SELECT count(*), count(*)` with all columns. So does this
project: of columns with the same name the first keeps it, and the second is `x_1`
(`sparseq.released.result_columns`).
"""

from __future__ import annotations

from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.question.catalog import Catalog
from sparseq.released.result_columns import unique_names
from sparseq.sql.parse import said, spell_columns


def name_apart(select: exp.Select, catalog: Catalog) -> dict[str, str]:
    """Give each column of the outermost SELECT a unique name, in place.

    Returns:
        The written names of the columns, by their names in the tree.

    Raises:
        QueryRefused: ORDER BY or HAVING uses a name that several different columns share.
    """
    spelled = spell_columns(select, catalog)
    shown = [
        name if _has_name(e) else plain_name(e.unalias())
        for e, name in zip(select.expressions, spelled, strict=True)
    ]
    found: dict[str, str] = {}
    if any(e.is_star for e in select.expressions):
        return dict(zip((e.alias_or_name for e in select.expressions), spelled, strict=True))
    for e, name, called in zip(list(select.expressions), shown, unique_names(shown), strict=True):
        if called == name and not (isinstance(e, exp.Alias) and not e.alias):
            unnamed = e.alias_or_name.startswith("_col_")  # the reader of the tree names it
            found.setdefault(e.alias_or_name, e.alias_or_name if unnamed else name)
            continue
        if called != name:
            _check_unused(select, e)
        e.replace(exp.alias_(e.unalias().copy(), called.lower(), quoted=True))
        found[called.lower()] = called
    return found


def _check_unused(select: exp.Select, column: exp.Expr) -> None:
    """Check that no clause refers to a column by a name that another column shares."""
    name = column.alias_or_name.lower()
    same = [e.unalias() for e in select.expressions if e.alias_or_name.lower() == name]
    clauses = [select.args.get(clause) for clause in ("having", "order")]
    used = [c for clause in clauses if clause is not None for c in clause.find_all(exp.Column)]
    if len(set(same)) > 1 and any(not c.table and c.name.lower() == name for c in used):
        raise QueryRefused(f"two columns are called {name!r}", "rename one: … AS other")


def _has_name(e: exp.Expr) -> bool:
    """Tell whether the query names a column; "" does not count: no engine accepts it."""
    if isinstance(e, exp.Alias) and not e.alias:
        return False
    return not e.alias_or_name.startswith("_col_")


def plain_name(e: exp.Expr) -> str:
    """Return a name for a column that the query leaves unnamed."""
    inside = e.this if isinstance(e, exp.Filter) else e
    if isinstance(inside, exp.Column):
        return inside.name
    if isinstance(inside, exp.Count) and isinstance(inside.this, exp.Star):
        return "count"
    if isinstance(inside, exp.Anonymous):  # omit the bins
        words = [said(x) for x in inside.expressions if not isinstance(x, exp.Array)]
        text = "_".join([inside.name, *words]).lower()
    else:
        text = said(e).lower()
    return "".join(c if c.isalnum() else "_" for c in text).strip("_")[:40]
