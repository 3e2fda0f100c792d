"""PostgreSQL's SELECTs over its catalogue, rewritten for DuckDB.

Only known tables and functions pass, so DuckDB's own, which reveal facts about its host, are out of
reach.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sparseq.base.errors import did_you_mean
from sparseq.pgwire._duckdb.catalog_functions import OWN
from sparseq.pgwire._duckdb.column_names import names_of, rename
from sparseq.pgwire._duckdb.growth import bounded
from sparseq.pgwire.route import ANSWER
from sparseq.pgwire.wire_errors import SYNTAX_ERROR, WireError
from sparseq.sql.parse import Dialect

_SCHEMAS = {"pg_catalog": "pg_catalog_", "information_schema": "information_schema_"}
_MOST_NODES = 20_000
_HARMLESS = frozenset(
    [
        "abs",
        "ascii",
        "bit_length",
        "ceil",
        "ceiling",
        "char_length",
        "chr",
        "concat",
        "concat_ws",
        "exp",
        "floor",
        "format",
        "greatest",
        "initcap",
        "least",
        "left",
        "length",
        "ln",
        "log",
        "lower",
        "lpad",
        "ltrim",
        "md5",
        "mod",
        "nullif",
        "octet_length",
        "pi",
        "position",
        "power",
        "repeat",
        "replace",
        "reverse",
        "right",
        "round",
        "row_number",
        "rpad",
        "rtrim",
        "sign",
        "split_part",
        "sqrt",
        "starts_with",
        "strpos",
        "substr",
        "substring",
        "translate",
        "trim",
        "trunc",
        "upper",
        "unnest",
        "generate_series",
        "string_to_array",
        "regexp_replace",
        "regexp_matches",
        "array_append",
        "array_cat",
        "array_remove",
        "date_trunc",
        "date_part",
        "extract",
        "to_timestamp",
        "age",
        "make_date",
        "now",
        "coalesce",
        "bool_and",
        "bool_or",
        "every",
        "string_agg",
        "array_agg",
        "count",
        "sum",
        "avg",
        "min",
        "max",
        "rank",
        "dense_rank",
        "ntile",
        "lag",
        "lead",
        "first_value",
        "last_value",
        "json_object",
        "to_json",
        "json_agg",
        "list_value",
        "list_aggregate",
        "rand",
        "any_value",
        "pg_typeof",
        "row",
        "struct_pack",
        "regexp_full_match",
        "list_contains",
        "stddev",
        "variance",
        "corr",
        "percentile_cont",
        "percentile_disc",
        "mode",
        "all",
        "generate_subscripts",
        "quantile_cont",
        "median",
        "epoch",
        "date_diff",
        "isnan",
        "isfinite",
        "width_bucket",
    ]
)
_RENAMED = {
    "json_build_object": "json_object",
    "jsonb_build_object": "json_object",
    "json_agg": "json_group_array",
    "jsonb_agg": "json_group_array",
    "every": "bool_and",
    "quote_nullable": "quote_literal",
}
_REGISTERS = {
    "regclass": "class",
    "regtype": "type",
    "regproc": "proc",
    "regprocedure": "proc",
    "regnamespace": "namespace",
    "regrole": "role",
}
_PROCS = {
    "typinput",
    "typoutput",
    "typreceive",
    "typsend",
    "typanalyze",
    "typmodin",
    "typmodout",
    "typsubscript",
    "amhandler",
    "oprcode",
    "oprrest",
    "oprjoin",
    "prosupport",
}
_TABLEOIDS = {
    "pg_class": 1259,
    "pg_namespace": 2615,
    "pg_type": 1247,
    "pg_proc": 1255,
    "pg_constraint": 2606,
    "pg_attrdef": 2604,
    "pg_operator": 2617,
    "pg_opclass": 2616,
    "pg_opfamily": 2753,
    "pg_rewrite": 2618,
    "pg_trigger": 2620,
    "pg_database": 1262,
    "pg_description": 2609,
    "pg_am": 2601,
    "pg_language": 2612,
    "pg_extension": 3079,
    "pg_attribute": 1249,
    "pg_index": 2610,
    "pg_authid": 1260,
}


class Rewriter:
    """Rewrites SELECTs.

    Args:
        tables: Names of the tables of each schema; `people` has the tables that are empty here.
        functions: Names of PostgreSQL's functions.
    """

    def __init__(self, tables: Mapping[str, set[str]], functions: frozenset[str]) -> None:
        self._tables, self._functions = tables, functions

    def rewritten(self, sql: str) -> str:
        """Return a look-up for DuckDB.

        Raises:
            WireError: The SQL can't be parsed, or names an unknown object.
        """
        tree = _parse(_prepare(sql))
        self._check_functions(tree)
        self._name_tables(tree, False)
        for name in tree.find_all(exp.Identifier):
            if not name.quoted:
                name.set("this", name.name.lower())
        names = names_of(tree)
        tree = _change(_change(tree, _registers), _rewritten_node)
        _qualify(tree)
        rename(tree, names)
        return _change(tree, bounded).sql("duckdb")

    def over_empty(self, sql: str) -> str:
        """Return a SELECT over people's tables, which have no rows here, for DuckDB.

        Raises:
            WireError: The SQL names anything else.
        """
        tree = _parse(sql, duckdb=True)
        self._check_functions(tree)
        self._name_tables(tree, True)
        return _change(tree, bounded).sql("duckdb")

    def over_answer(self, sql: str) -> str:
        """Return a SELECT over an answer for DuckDB.

        Raises:
            WireError: The SQL names anything but the answer.
        """
        tree = _parse(sql, duckdb=True)
        self._check_functions(tree)
        names = {ANSWER, *(cte.alias.lower() for cte in tree.find_all(exp.CTE))}
        for table in tree.find_all(exp.Table):
            if table.db or table.name.lower() not in names:
                raise WireError("42P01", f'relation "{table.name}" does not exist')
        return _change(tree, bounded).sql("duckdb")

    def _name_tables(self, tree: exp.Expr, people: bool) -> None:
        local = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
        for table in list(tree.find_all(exp.Table)):
            name, schema = table.name.lower(), table.db.lower()
            if isinstance(table.this, exp.Func):
                table.set("db", None)
                table.set("catalog", None)
                continue
            if not schema and name in local:
                continue
            place = self._schema(schema, name, people)
            if not table.alias:
                alias = exp.to_identifier(table.name, quoted=table.this.quoted)
                table.set("alias", exp.TableAlias(this=alias))
            if place == "pg_catalog_" and name in _TABLEOIDS:
                table.set("alias", table.args["alias"])
            table.set("db", exp.to_identifier(place, quoted=True))
            table.set("this", exp.to_identifier(self._spell(place, name), quoted=True))
            table.set("catalog", None)

    def _schema(self, schema: str, name: str, people: bool) -> str:
        if people:
            if schema in ("", "public") and name in self._tables["people"]:
                return "people"
        else:
            for each in (schema,) if schema else ("pg_catalog", "public"):
                if name in {t.lower() for t in self._tables.get(each, ())} and each != "people":
                    return _SCHEMAS.get(each, each)
        full_name = f"{schema}.{name}" if schema else name
        hint = did_you_mean(name, self._tables["people"] | self._tables["public"])
        raise WireError("42P01", f'relation "{full_name}" does not exist', hint)

    def _spell(self, schema: str, name: str) -> str:
        plain = schema.removesuffix("_") if schema in _SCHEMAS.values() else schema
        return next((t for t in self._tables[plain] if t.lower() == name), name)

    def _check_functions(self, tree: exp.Expr) -> None:
        count = 0
        for node in tree.walk():
            count += 1
            if count > _MOST_NODES:
                raise WireError("54001", "the statement is too long")
            if isinstance(node, exp.Anonymous):
                name = node.name.lower()
                if _macro(name) in OWN or name in _RENAMED or name in _HARMLESS:
                    continue
                exists = name in self._functions
                problem = "is not answered here" if exists else "does not exist"
                raise WireError("0A000" if exists else "42883", f"function {name} {problem}")
            if isinstance(node, exp.Func) and type(node).__name__ in _READERS:
                raise WireError("42883", f"function {node.sql_name().lower()} does not exist")


_READERS = frozenset(("ReadCSV", "ReadParquet", "ReadJSON", "Copy", "ParameterizedAgg"))


def _macro(name: str) -> str:
    return name if name.startswith("pg_") else f"pg_{name}"


def _parse(sql: str, duckdb: bool = False) -> exp.Expr:
    try:
        statements = [s for s in sqlglot.parse(sql, dialect=Dialect if duckdb else "postgres") if s]
    except SqlglotError as error:
        first = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).split("\n")[0]
        raise WireError(SYNTAX_ERROR, f"syntax error: {first}") from None
    except RecursionError:
        raise WireError("54001", "the statement is nested too deeply") from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Query | exp.Subquery | exp.Values):
        raise WireError(SYNTAX_ERROR, "this is no SELECT")
    return statements[0]


def _prepare(sql: str) -> str:
    """Remove syntax that sqlglot does not parse: OPERATOR(…), COLLATE, arrays as texts."""
    sql = re.sub(
        r"\bAS\s+(update|select|insert|delete|table|schema)\b", r'AS "\1"', sql, flags=re.I
    )
    sql = re.sub(r"OPERATOR\s*\(\s*pg_catalog\.([~!<>=*]+)\s*\)", r" \1 ", sql, flags=re.I)
    sql = re.sub(r'\s+COLLATE\s+(?:pg_catalog\.)?"?(?:default|C)"?', " ", sql, flags=re.I)
    sql = re.sub(r"'\{([^'{}]*)\}'(\s*::\s*[\w\"]+\s*\[\])?(?=\s*\))", _array, sql)
    sql = re.sub(
        r"\(information_schema\._pg_expandarray\(([^()]*)\)\)\.(\w)",
        r"information_schema._pg_expandarray(\1).\2",
        sql,
    )
    if re.match(r"\s*TABLE\s", sql, re.I):
        sql = re.sub(r"^\s*TABLE\s", "SELECT * FROM ", sql, flags=re.I)
    return sql


def _change(tree: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Change all nodes, the inner ones first."""
    for node in reversed(list(tree.walk(bfs=True))):
        made = change(node)
        if made is not node:
            if node is tree:
                tree = made
            else:
                node.replace(made)
    return tree


def _array(match: re.Match[str]) -> str:
    items = [item.strip().strip('"') for item in match[1].split(",") if item.strip()]
    return "ARRAY[" + ", ".join(f"'{item}'" for item in items) + "]" + (match[2] or "::text[]")


def _registers(node: exp.Expr) -> exp.Expr:
    """Rewrite casts to and from regclass and similar types, by name or by number."""
    if not isinstance(node, exp.Cast):
        return node
    to = node.to.sql("postgres").lower().replace("pg_catalog.", "").replace('"', "")
    value = node.this
    if to in _REGISTERS:
        kind = _REGISTERS[to]
        by_name = (isinstance(value, exp.Literal) and value.is_string) or _is_text(value)
        if by_name and kind in ("class", "type", "proc"):
            if isinstance(node.parent, exp.EQ | exp.NEQ) and kind == "proc":
                return exp.Literal.string(value.name.split(".")[-1])
            return exp.Anonymous(this=f"pg_reg{kind}_oid", expressions=[value])
        return exp.Anonymous(this=f"pg_reg{kind}_name", expressions=[value])
    if to in ("oid", "xid", "cid") and isinstance(value, exp.Anonymous):
        if value.name.endswith("_name"):
            kind = value.name.removesuffix("_name")
            return exp.Anonymous(this=f"{kind}_oid", expressions=value.expressions)
        return value
    if to in ("oid", "xid", "cid"):
        return exp.cast(value, "UINTEGER", dialect="duckdb")
    if to in (
        "name",
        "char",
        "regoper",
        "regoperator",
        "unknown",
        "cstring",
        "inet",
        "aclitem",
        "information_schema.sql_identifier",
        "information_schema.character_data",
    ):
        return exp.cast(value, "VARCHAR", dialect="duckdb")
    if to in ("oid[]", "oidvector"):
        return exp.cast(value, "UINTEGER[]", dialect="duckdb")
    if to in ("name[]", "char[]", "aclitem[]", "regtype[]", "regclass[]"):
        return exp.cast(value, "VARCHAR[]", dialect="duckdb")
    if to == "int2vector":
        return exp.cast(value, "SMALLINT[]", dialect="duckdb")
    return node


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Cast) and node.to.is_type("text", "varchar")


def _rewritten_node(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Dot) and isinstance(node.this, exp.Identifier):
        if node.this.name.lower() in ("pg_catalog", "information_schema"):
            return _rewritten_node(node.expression)
        return node
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        name = _RENAMED.get(name, name)
        if name == "generate_subscripts":
            length = exp.Anonymous(this="len", expressions=node.expressions[:1])
            numbers = exp.Anonymous(
                this="generate_series", expressions=[exp.Literal.number(1), length]
            )
            return exp.Anonymous(this="unnest", expressions=[numbers])
        node.set("this", _macro(name) if _macro(name) in OWN else name)
        return node
    if isinstance(node, exp.EQ | exp.NEQ) and isinstance(node.expression, exp.Anonymous | exp.All):
        other = node.expression
        if isinstance(other, exp.All) or other.name.lower() == "all":
            items = other.this if isinstance(other, exp.All) else other.expressions[0]
            items = items.unnest()
            if isinstance(node, exp.NEQ) and not isinstance(items, exp.Query):
                has = exp.Anonymous(this="list_contains", expressions=[items, node.this])
                return exp.not_(has)
    return _type(node)


def _type(node: exp.Expr) -> exp.Expr:
    """Rewrite functions that sqlglot parses to special classes."""
    for kinds, name in _CLASSES:
        if isinstance(node, kinds):
            given = [a for a in (node.this, *node.args.values()) if isinstance(a, exp.Expr)]
            arguments = list(dict.fromkeys(map(id, given)))
            unique = [next(a for a in given if id(a) == i) for i in arguments]
            return exp.Anonymous(this=name, expressions=unique)
    if isinstance(node, exp.DPipe) and isinstance(node.expression, exp.Array):
        return exp.Anonymous(this="list_concat", expressions=[node.this, node.expression])
    if isinstance(node, exp.Div) and _is_whole(node.this) and _is_whole(node.expression):
        return exp.IntDiv(this=node.this, expression=node.expression)
    if isinstance(node, exp.EQ | exp.NEQ) and isinstance(node.this, exp.Column):
        zero = isinstance(node.expression, exp.Literal) and node.expression.this == "0"
        if node.this.name.lower() in _PROCS and zero:
            node.set("expression", exp.Literal.string("-"))
    return node


def _is_whole(node: exp.Expr) -> bool:
    """Tell whether a node is surely an integer, so that division by an integer gives one."""
    if isinstance(node, exp.Cast):
        return bool(node.to.is_type(*exp.DataType.INTEGER_TYPES))
    return bool(node.is_int)


def _class(name: str) -> tuple[type, ...]:
    node = getattr(exp, name, None)
    return (node,) if node is not None else ()


_CLASSES = (
    (_class("CurrentSchema"), "pg_current_schema"),
    (_class("CurrentUser"), "pg_current_user"),
    (_class("SessionUser"), "pg_current_user"),
    (_class("CurrentRole"), "pg_current_user"),
    (_class("CurrentCatalog"), "pg_current_database"),
    (_class("CurrentDatabase"), "pg_current_database"),
    (_class("CurrentSchemas"), "pg_current_schemas"),
    (_class("CurrentVersion"), "pg_version"),
    (_class("Version"), "pg_version"),
    (_class("ArrayToString"), "pg_array_to_string"),
    (_class("ToChar"), "pg_to_char"),
)


def _qualify(tree: exp.Expr) -> None:
    """Reduce a column's qualifier to its table; system columns of every table become constants."""
    for column in list(tree.find_all(exp.Column)):
        if column.args.get("db"):
            column.set("db", None)
            column.set("catalog", None)
        if column.name.lower() == "tableoid" and column.table:
            select = column.find_ancestor(exp.Select)
            tables = select.find_all(exp.Table) if select is not None else ()
            named = {t.alias_or_name.lower(): t.name.lower() for t in tables}
            oid = _TABLEOIDS.get(named.get(column.table.lower(), ""), 0)
            number = exp.cast(exp.Literal.number(oid), "UINTEGER", dialect="duckdb")
            inside = isinstance(column.parent, exp.Select)
            column.replace(exp.alias_(number, "tableoid") if inside else number)
