"""Parsing of SQL text to a checked syntax tree: one SELECT of allowed words only.

Nothing runs that is not on the lists in `sparseq.sql.allowed_words`. Features of DuckDB that would
give a query access to files, the network, settings or other tables are also disabled, see
`sparseq.store.store`.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Mapping
from functools import partial
from types import FunctionType
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import OptimizeError, ParseError, SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, build_scope
from sqlglot.schema import MappingSchema
from sqlglot.tokenizer_core import Token, TokenType

from sparseq.base.errors import NotSql, ParameterError, QueryRefused, did_you_mean
from sparseq.question.catalog import Catalog
from sparseq.question.limits import LIMITS, all_limits
from sparseq.question.plan import KNOWN_OPTIONS, Options
from sparseq.sql.aggregate_calls import BINNED
from sparseq.sql.allowed_words import check_allowed, check_depth, check_written
from sparseq.sql.dialect import DUCKDB
from sparseq.sql.normalize import rewritten
from sparseq.sql.person_keys import conditions_in, group_people, join_people, prefer_own
from sparseq.sql.time_lengths import ONE_UNIT

MAX_SAID = 80
_SPELLED = "spelled"  # how a name in the SELECT list was written
_MOST_TOKENS = 4  # a name, a value or an operation
_MARK = ["SELECT", "WITH", "DIFFERENTIAL_PRIVACY"]
_BIGQUERY_OPTIONS = {
    "epsilon": "the store's guarantee covers the whole stream",
    "delta": "the store's guarantee covers the whole stream",
    "max_groups_contributed": "users are charged for what they contribute, and never cut down",
    "max_rows_contributed": "users are charged for what they contribute, and never cut down",
    "privacy_unit_column": "the privacy unit is the store's user column",
    "group_selection_strategy": "groups come from a public domain",
}


def _call(name: str, args: list[exp.Expr]) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=args)


class Dialect(DuckDB):
    """DuckDB's SQL, except that binned aggregates keep all their arguments."""

    class Parser(DuckDB.Parser):  # type: ignore[misc, valid-type]
        """The parser of this dialect."""

        FUNCTIONS = DuckDB.Parser.FUNCTIONS | {
            name.upper(): partial(_call, name) for name in BINNED
        }
        FUNCTION_PARSERS = {  # noqa: RUF012 - sqlglot's own form
            name: parser
            for name, parser in DuckDB.Parser.FUNCTION_PARSERS.items()
            if name.lower() not in BINNED
        }

        def _parse_interval_span(
            self, this: exp.Expr, parse_function_unit: bool = True
        ) -> exp.Interval:
            """Keep the whole text of an interval; sqlglot parses only its first number and unit."""
            text = this.name if isinstance(this, exp.Literal) and this.is_string else ""
            read: exp.Interval = super()._parse_interval_span(
                this, parse_function_unit=parse_function_unit
            )
            one = len(exp.INTERVAL_STRING_RE.findall(text)) == 1
            if one and not ONE_UNIT.fullmatch(text):
                read.set("this", exp.Literal.string(text))
                read.set("unit", None)
            return read


DIALECT = Dialect()
"""The dialect as an object; it has no state."""
COMPILED = not isinstance(DuckDB.Parser.parse, FunctionType)
"""The package sqlglotc is installed: its compiled parser cannot be extended."""


def parse(
    text: str, catalog: Catalog, most: Mapping[str, int] | None = None
) -> tuple[exp.Select, Options]:
    """Return the qualified tree of one SELECT, and the options in its text.

    Every column names its table, stars are expanded, and all names are known.

    Args:
        text: The query.
        catalog: The public facts of the tables.
        most: All limits, by name; the defaults if omitted.

    Raises:
        QueryRefused: The text is not one SELECT, or a part of it is unknown or not allowed.
        ParameterError: The package sqlglotc is installed.
    """
    if COMPILED:
        raise ParameterError(
            "the package sqlglotc is installed, and its compiled parser cannot be extended",
            "pip uninstall sqlglotc; pip install --force-reinstall --no-deps sqlglot",
        )
    most = all_limits() if most is None else most
    LIMITS["text"].check(len(text), most)
    if any("\ud800" <= c <= "\udfff" for c in text):
        raise QueryRefused("the query is not Unicode text", "send it as UTF-8")
    try:
        stripped, options = split_options(text)
        _check_tokens(stripped, most)
        written = _one_select(stripped)
        check_depth(written, most)
        check_written(written)
        tree = rewritten(written, catalog)
        assert isinstance(tree, exp.Select)
        check_allowed(tree, stripped, most)
        _check_tables(tree, catalog)
        _check_growth(tree, most)
        linked = any(table.link is not None for table in catalog.private)
        if linked:
            prefer_own(tree, catalog)
        tree = _qualify(tree, catalog)
        if linked or catalog.owned:
            join_people(tree, catalog)
            group_people(tree, catalog)
        columns = sum(len(select.expressions) for select in tree.find_all(exp.Select))
        LIMITS["columns"].check(columns, most)
        names = frozenset(column.name for column in tree.find_all(exp.Column))
        for node in tree.find_all(exp.Window, exp.Distinct):
            node.meta[SEEN] = names
        return tree, options
    except RecursionError:
        raise QueryRefused("the query is nested too deeply", "split it into parts") from None


SEEN = "columns that the query names"
"""The columns that the query names; all windows know them, and so break ties equally."""


def _check_tokens(text: str, most: Mapping[str, int]) -> None:
    """Check the number of tokens before parsing: recursion limits depend on the caller."""
    longest = _MOST_TOKENS * most["nodes"]
    if text.upper().count("SELECT") <= most["selects"] and len(text) <= longest:
        return
    try:
        tokens = sqlglot.tokenize(text, dialect=DIALECT)
    except SqlglotError:  # the parser reports it
        return
    LIMITS["selects"].check(sum(t.token_type == TokenType.SELECT for t in tokens), most)
    if len(tokens) > longest:
        raise LIMITS["nodes"].refusal(f"more than {most['nodes']:,}", most)


def _one_select(text: str) -> exp.Expr:
    try:
        statements = [s for s in sqlglot.parse(text, dialect=DIALECT) if s is not None]
    except (KeyError, IndexError):  # sqlglot does not check the number of arguments everywhere
        raise NotSql(
            "this is not SQL that sparseq reads: a function has too few arguments"
        ) from None
    except SqlglotError as error:
        hint = _misspelt(_first_word(text))
        if re.search(r"\bOPTIONS\s*\(", text, re.IGNORECASE):
            hint = "options come first: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(sigma => 10) …"
        raise NotSql(f"this is not SQL that sparseq reads: {_message(error)}", hint) from None
    if not statements:
        raise NotSql("the query is empty", "SELECT count(*) FROM a table")
    if len(statements) != 1:
        raise QueryRefused(
            f"one query at a time: there are {len(statements)} statements",
            "send each SELECT by itself",
        )
    tree = statements[0]
    if not isinstance(tree, exp.Select | exp.SetOperation | exp.Pivot):
        word = _first_word(text)
        if _misspelt(word):
            raise NotSql(f"{word} is not a query", _misspelt(word))
        raise QueryRefused(
            f"{word} is not a query", "only SELECT is answered; stores are read-only"
        )
    return tree


def _first_word(text: str) -> str:
    """Return the first word of a query, after any comments."""
    try:
        tokens = sqlglot.tokenize(text, dialect=DIALECT)
    except SqlglotError:
        return ""
    return next((t.text.upper()[:20] for t in tokens if t.text != ";"), "")


def _misspelt(word: str) -> str:
    close = difflib.get_close_matches(word, ["SELECT", "WITH"], 1, 0.7)
    return f"did you mean {close[0]}?" if close and word != close[0] else ""


def _qualify(tree: exp.Select, catalog: Catalog) -> exp.Select:
    for alias in tree.find_all(exp.Alias, exp.TableAlias):
        named = [alias.args.get("alias"), *(alias.args.get("columns") or [])]
        for name in named:
            if isinstance(name, exp.Identifier):
                name.meta[_SPELLED] = name.name
    tree.meta[_SPELLED] = {
        c.name.lower(): c.name for t in tree.find_all(exp.TableAlias) for c in t.columns
    }
    after: list[exp.Join] = []
    for join in tree.find_all(exp.Join):
        after += _after_full(join.parent) if join.side == "FULL" and join.parent else []
    for join in after:
        join.meta[_AFTER_FULL] = True
    try:
        qualified = qualify(
            tree, schema=_schema_of(catalog), dialect=DIALECT, validate_qualify_columns=True
        )
    except OptimizeError as error:
        raise _unknown_column(str(error), catalog) from None
    except SqlglotError as error:
        raise NotSql(f"this query can't be read: {_message(error)}") from None
    assert isinstance(qualified, exp.Select)
    if after:
        _use_either_side(qualified)
    return qualified


def _schema_of(catalog: Catalog) -> MappingSchema:
    """Return the columns of a catalog's tables as sqlglot takes them; the last few are kept."""
    known = _schemas.get(id(catalog))
    if known is None:
        tables: dict[str, object] = {
            t.name.lower(): {c.name.lower(): c.type for c in t.columns} for t in catalog.tables
        }
        known = catalog, MappingSchema(tables, dialect=DIALECT)
        if len(_schemas) >= _SCHEMAS:
            _schemas.clear()
        _schemas[id(catalog)] = known
    return known[1]


_SCHEMAS = 16
_schemas: dict[int, tuple[Catalog, MappingSchema]] = {}
"""By `id` of a catalog, which is kept as well: no other object has its `id`."""

_AFTER_FULL = "by a column of a FULL JOIN"


def _after_full(select: exp.Expr) -> list[exp.Join]:
    """Return the joins of a SELECT that use USING, if the first such join is a FULL JOIN."""
    named = [j for j in select.args.get("joins") or [] if j.args.get("using") or j.method]
    whole = bool(named) and named[0] is select.args["joins"][0] and named[0].side == "FULL"
    return named[1:] if whole else []


def _use_either_side(tree: exp.Select) -> None:
    """Join by the key of either side of a FULL JOIN; sqlglot takes the first side's key."""
    for join in [j for j in tree.find_all(exp.Join) if _AFTER_FULL in j.meta]:
        first = join.parent.args["joins"][0] if join.parent is not None else join
        pairs = {c.this.sql(): c.expression for c in conditions_in(first) if isinstance(c, exp.EQ)}
        for part in conditions_in(join) if join.args.get("on") is not None else []:
            other = pairs.get(part.this.sql()) if isinstance(part, exp.EQ) else None
            if other is not None:
                part.set("this", exp.func("coalesce", part.this.copy(), other.copy()))


def spell_columns(tree: exp.Select, catalog: Catalog) -> list[str]:
    """Return the columns of a parsed SELECT as they were written.

    A column without an alias is named after its source column, as in DuckDB.

    Example:
        >>> from sparseq.question.catalog import Column, Table
        >>> shop = Catalog((Table("t", (Column("who", "BIGINT"),), "who"),))
        >>> tree, _ = parse('SELECT WHO, count(*) AS "Orders" FROM t GROUP BY 1', shop)
        >>> spell_columns(tree, shop)
        ['who', 'Orders']
    """
    scope, listed = build_scope(tree), tree.meta[_SPELLED]
    return [_spell(e, scope, listed, catalog) for e in tree.expressions]


def _spell(e: exp.Expr, scope: Scope | None, listed: Mapping[str, str], catalog: Catalog) -> str:
    """Return a column as it was written; `listed`: columns that a subquery's alias names."""
    name, alias, column = e.alias_or_name, e.args.get("alias"), e.unalias()
    if isinstance(alias, exp.Identifier) and _SPELLED in alias.meta:
        return str(alias.meta[_SPELLED])
    if not isinstance(column, exp.Column) or column.name != name or scope is None:
        return listed.get(name, name)
    source = scope.sources.get(column.table)
    if isinstance(source, Scope) and isinstance(source.expression, exp.Query):
        source = next(iter(source.set_operation_scopes), source)
        inner = (x for x in source.expression.expressions if x.alias_or_name == name)
        return next((_spell(x, source, listed, catalog) for x in inner), name)
    stored = catalog.table(source.name).columns if isinstance(source, exp.Table) else ()
    return next((c.name for c in stored if c.name.lower() == name), name)


def _unknown_column(message: str, catalog: Catalog) -> QueryRefused:
    found = re.search(r"[Cc]olumn(?: '\"?([^'\"]+)|: (\S+))", message)
    if found:
        name = (found[1] or found[2]).split(".")[-1].strip('"')
        if name.isdecimal():
            return QueryRefused(f"there is no column number {name[:20]} to group or order by")
        columns = sorted({c.name for t in catalog.tables for c in t.columns})
        if name.lower() in (c.lower() for c in columns):
            return QueryRefused(
                f"column {name!r} is not known here, or belongs to several tables",
                "write table.column",
            )
        return QueryRefused(f"there is no column {name!r}", did_you_mean(name, columns))
    return QueryRefused(f"this query can't be read: {message.splitlines()[0]}")


def _check_tables(tree: exp.Select, catalog: Catalog) -> None:
    ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            raise QueryRefused(
                f"{table.sql('duckdb')} reads something that is not a table of the store",
                "name a table of the store",
            )
        if table.args.get("db") or table.args.get("catalog"):
            catalog.table(table.name)
            raise QueryRefused(
                f"{table.sql('duckdb')}: tables have no schema here", f"write {table.name}"
            )
        if table.name.lower() not in ctes:
            catalog.table(table.name)


def _check_growth(tree: exp.Select, most: Mapping[str, int]) -> None:
    """Refuse a query that becomes too large when aliases are expanded."""
    total = sum(1 for _ in tree.walk())
    for select in tree.find_all(exp.Select):
        sizes: dict[str, int] = {}
        for e in select.expressions:
            size, plain = _written_out(e, sizes)
            if size > most["nodes"]:
                raise QueryRefused(
                    f"{e.alias_or_name!r} is too long once the names in it are written out",
                    "compute it step by step in subqueries",
                )
            total += size - plain
            sizes[e.alias_or_name.lower()] = size
        for clause in _NAMED_IN:
            part = select.args.get(clause)
            if part is not None:
                size, plain = _written_out(part, sizes)
                total += size - plain
    LIMITS["nodes"].check(total, most)


_NAMED_IN = ("where", "group", "having", "qualify", "order")


def _written_out(e: exp.Expr, sizes: Mapping[str, int]) -> tuple[int, int]:
    """Return the number of nodes of an expression after expansion, from the sizes of its names, and
    before it."""
    nodes = list(e.walk())
    named = [node for node in nodes if isinstance(node, exp.Column) and not node.table]
    return len(nodes) + sum(sizes.get(node.name.lower(), 1) - 1 for node in named), len(nodes)


COLUMN_EXAMPLE = 'for example "SELECT page FROM visits"'


def columns_asked_for(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the table and the columns of a SELECT, in which keys are to be found.

    Raises:
        QueryRefused: It does more than select all rows of some columns.

    Example:
        >>> columns_asked_for("SELECT page, day, count(*) FROM visits GROUP BY page, day")
        ('visits', ('page', 'day'))
    """
    try:
        select = sqlglot.parse_one(text, dialect="duckdb")
    except SqlglotError:
        raise QueryRefused("the SQL is not understood", COLUMN_EXAMPLE) from None
    source = select.args.get("from_") if isinstance(select, exp.Select) else None
    allowed = {"expressions", "from_", "group", "kind", "distinct"}
    plain = {k for k, v in select.args.items() if v} <= allowed
    if source is None or not isinstance(source.this, exp.Table) or not plain:
        raise QueryRefused("keys are looked for in all rows of one table", COLUMN_EXAMPLE)
    shown = [e.unalias() for e in select.expressions]
    columns = dict.fromkeys(e.name.lower() for e in shown if isinstance(e, exp.Column))
    others = [e for e in shown if not isinstance(e, exp.Column | exp.Count)]
    group = select.args.get("group")
    grouped = [] if group is None else group.expressions
    others += [e for e in grouped if not isinstance(e, exp.Column)]
    if not columns or others or {e.name.lower() for e in grouped} - set(columns):
        raise QueryRefused("keys are looked for in columns as they are", COLUMN_EXAMPLE)
    return source.this.name, tuple(columns)


def split_options(text: str) -> tuple[str, Options]:
    """Remove `WITH DIFFERENTIAL_PRIVACY OPTIONS(…)` from the text, and parse it."""
    if "DIFFERENTIAL_PRIVACY" not in text.upper():
        return text, Options()
    try:
        tokens = list(sqlglot.tokenize(text, dialect=DIALECT))
    except SqlglotError as error:
        raise NotSql(f"this is not SQL that sparseq reads: {_message(error)}") from None
    words = [t.text.upper() for t in tokens]
    found = [i for i in range(len(words)) if words[i : i + 3] == _MARK]
    if not found:
        return text, Options()
    i = found[0] + 1
    if len(found) > 1 or words[:i].count("(") != words[:i].count(")"):
        raise QueryRefused("OPTIONS are the whole query's", "write them once, in the outer SELECT")
    token, end, options = tokens[i], tokens[i + 1].end, Options()
    if words[i + 2 : i + 3] == ["OPTIONS"]:
        closing = next((t for t in tokens[i + 3 :] if t.text == ")"), None)
        if words[i + 3 : i + 4] != ["("] or closing is None:
            raise QueryRefused("OPTIONS needs its parentheses", "OPTIONS(sigma => 10)")
        inside = [t for t in tokens[i + 4 :] if t.start < closing.start]
        options, end = _read_options(inside, text), closing.end
    return text[: token.start] + " " * (end - token.start + 1) + text[end + 1 :], options


def _read_options(tokens: list[Token], text: str) -> Options:
    said = text[tokens[0].start : tokens[-1].end + 1] if tokens else ""
    values: dict[str, Any] = {}
    for part in filter(str.strip, said.split(",")):
        match = re.fullmatch(r"\s*(\w+)\s*(?:=>|=)\s*([-+.\w]+)\s*", part)
        if not match:
            raise QueryRefused(f"OPTIONS({said}) can't be read", "OPTIONS(sigma => 10)")
        name = match[1].lower()
        if name in values:
            raise QueryRefused(f"{name} is given twice", "give it once")
        if name in _BIGQUERY_OPTIONS:
            raise QueryRefused(
                f"{name} is not set query by query: {_BIGQUERY_OPTIONS[name]}",
                "OPTIONS takes sigma, accuracy, precision or price, scale, and confidence",
            )
        if name not in KNOWN_OPTIONS:
            raise QueryRefused(
                f"there is no option {name!r}", did_you_mean(name, list(KNOWN_OPTIONS))
            )
        try:
            values[name] = float(match[2])
        except ValueError:
            raise QueryRefused(f"{name} is {match[2]!r}; it must be a number") from None
    try:
        return Options(**values)
    except ParameterError as error:
        raise QueryRefused(error.message, error.hint) from None


def _message(error: Exception) -> str:
    """Return a parser's message in one line, with the position and the nearby word."""
    if isinstance(error, ParseError) and error.errors and error.errors[0].get("line"):
        first = error.errors[0]
        word, told = first["highlight"] or "", str(first["description"]).partition(" but got <")[0]
        at = f"line {first['line']}, column {max(first['col'] - len(word) + 1, 1)}"
        return f"{told} ({at}{f', at {word[:40]!r}' if word else ''})"
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    return plain.strip().splitlines()[0] if plain.strip() else "it can't be read"


def identifier(name: str) -> str:
    """Return a name as an SQL identifier, quoted if it could be parsed as something else.

    >>> identifier("ward"), identifier("Ward 1"), identifier("order")
    ('ward', '"Ward 1"', '"order"')
    """
    return exp.to_identifier(name).sql(DUCKDB)


def said(e: exp.Expr) -> str:
    """Return an expression in readable SQL, shortened if it is long.

    A column names its table only if the expression has columns of this name of two tables. A
    placeholder for the number of another question is "?".
    """
    if type(e) is exp.Column and not {STANDS_IN, "written"} & e.meta.keys():
        return _shortened(identifier(e.name))
    named = {(column.name, column.table) for column in e.find_all(exp.Column)}
    several = Counter(name for name, _ in named)

    def plain(node: exp.Expr) -> exp.Expr:
        if STANDS_IN in node.meta:
            return exp.Placeholder()
        if isinstance(node, exp.Identifier):
            return exp.to_identifier(node.name)
        if isinstance(node, exp.Column):
            written = node.meta.get("written")  # a subquery's column: its expression
            table = node.table if several[node.name] > 1 and node.table.isidentifier() else None
            name = exp.column(exp.to_identifier(node.name), table)
            return name if written is None else written.transform(plain)
        if isinstance(node, exp.Alias) and node.this.name == node.alias:
            return plain(node.this)
        if isinstance(node, exp.Table) and node.alias == node.name:
            return exp.to_table(node.name)
        return node

    return _shortened(e.copy().transform(plain).sql(DUCKDB))


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_SAID else text[: MAX_SAID - 1] + "…"


def written(tree: exp.Select) -> str:
    """Return a tree as an equivalent query, close to what a person would write.

    Example:
        >>> from sparseq.question.catalog import Column, Table
        >>> shop = Catalog((Table("t", (Column("who", "BIGINT"), Column("x", "DOUBLE")), "who"),))
        >>> written(parse("select avg(X) from T where x > 0", shop)[0])
        'SELECT AVG(x) FROM t WHERE x > 0'
    """
    tree = tree.copy()
    alone = len({table.alias_or_name for table in tree.find_all(exp.Table, exp.Subquery)}) == 1
    for node in list(tree.walk()):
        if STANDS_IN in node.meta:
            node.replace(exp.Placeholder())
        elif isinstance(node, exp.Column) and alone:
            node.set("table", None)
        elif isinstance(node, exp.Alias) and (
            node.alias.startswith("_col_") or node.this.name == node.alias
        ):
            node.replace(node.this)
        elif isinstance(node, exp.Table) and node.alias == node.name:
            node.set("alias", None)
    for name in tree.find_all(exp.Identifier):
        name.replace(exp.to_identifier(name.name))
    return " ".join(tree.sql(DUCKDB).split())


RELEASED, STANDS_IN = "released", "stands in"
"""Marks of constants inserted into a query: a released noised number, and a placeholder for one."""
