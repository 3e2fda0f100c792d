"""The tables of pg_catalog and information_schema, with our own tables in them.

`postgresql15.json.gz` has what a fresh PostgreSQL 15 says of itself: the columns of all tables and
views of both schemas, and the rows of those that every database has alike. No setting of a host is
in it.

Functions of pg_catalog that clients call, as macros: `f` of PostgreSQL is `pg_f` here.

Where PostgreSQL's name begins with `pg_`, so does the macro's, once. A macro is text that is put in
the place of a call, so tables in it are asked under names that no argument can have: `oid_` of
`pg_class_` is pg_class's oid.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from sparseq.pgwire.pg_values import type_of
from sparseq.sql.catalog import Catalog, bound_text

# -- functions of pg_catalog that clients call, as macros: `f` of PostgreSQL is `pg_f` here --------

_TEXT, _NONE = "NULL::VARCHAR", "NULL::INTEGER"
_TYPE_NAMES = {
    "int4": "integer",
    "int8": "bigint",
    "int2": "smallint",
    "float8": "double precision",
    "float4": "real",
    "bool": "boolean",
    "varchar": "character varying",
    "bpchar": "character",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "time": "time without time zone",
    "timetz": "time with time zone",
    "bit": "bit",
    "varbit": "bit varying",
    "char": '"char"',
}
_SPELLED = " ".join(f"WHEN '{a}' THEN '{b}'" for a, b in _TYPE_NAMES.items())
_BACK = " ".join(f"WHEN '{b}' THEN '{a}'" for a, b in _TYPE_NAMES.items())
_NAME = "CASE WHEN typname LIKE '\\_%' ESCAPE '\\' AND typcategory = 'A' THEN {}[2:] ELSE {} END"
_IDENT = "regexp_full_match(x, '[a-z_][a-z0-9_$]*')"
_SETTINGS = "getvariable('pg_settings')"
_ONE = (
    "pg_get_expr",
    "pg_get_constraintdef",
    "pg_get_indexdef",
    "pg_get_viewdef",
    "pg_get_ruledef",
    "pg_get_triggerdef",
    "pg_get_partkeydef",
    "pg_get_functiondef",
    "pg_get_function_result",
    "pg_get_function_arguments",
    "pg_get_serial_sequence",
    "pg_get_function_identity_arguments",
    "pg_get_statisticsobjdef_columns",
    "pg_get_function_sqlbody",
    "pg_shobj_description",
    "pg_get_statisticsobjdef",
    "pg_inet_server_addr",
    "pg_inet_client_addr",
    "pg_inet_server_port",
    "pg_inet_client_port",
    "pg_postmaster_start_time",
    "pg_last_xact_replay_timestamp",
    "pg_get_replica_identity_index",
    "pg_get_userbyid_none",
)
_TRUE = (
    "pg_has_schema_privilege",
    "pg_has_table_privilege",
    "pg_has_any_column_privilege",
    "pg_has_column_privilege",
    "pg_has_database_privilege",
    "pg_has_function_privilege",
    "pg_has_type_privilege",
    "pg_has_sequence_privilege",
    "pg_has_role",
    "pg_has_language_privilege",
    "pg_has_foreign_data_wrapper_privilege",
    "pg_has_server_privilege",
    "pg_has_tablespace_privilege",
)
_DESCRIPTION = (
    "SELECT any_value(description_) FROM pg_catalog_.pg_description_ "
    "WHERE objoid_ = o AND objsubid_ = "
)


def _many(name: str, value: str) -> str:
    """Return a macro of one to four arguments that has one value."""
    signs = ("()", "(a)", "(a, b)", "(a, b, c)", "(a, b, c, d)")
    return f"CREATE MACRO {name}" + ", ".join(f"{sign} AS {value}" for sign in signs)


MACROS = [
    "CREATE MACRO pg_unqualified(x) AS replace(list_last(string_split(x::VARCHAR, '.')), '\"', '')",
    f"""CREATE MACRO pg_quote_ident(x) AS CASE WHEN {_IDENT} AND x NOT IN (SELECT word_ FROM
        pg_catalog_.keywords_ WHERE catcode_ = 'R') THEN x ELSE '"' || replace(x, '"', '""') || '"'
        END""",
    "CREATE MACRO pg_quote_literal(x) AS '''' || replace(x::VARCHAR, '''', '''''') || ''''",
    "CREATE MACRO pg_current_user() AS getvariable('pg_user')",
    "CREATE MACRO pg_get_userbyid(x) AS coalesce((SELECT any_value(rolname_) FROM "
    "pg_catalog_.pg_authid_ WHERE oid_ = x), CASE WHEN x = 16381 THEN getvariable('pg_user') ELSE "
    "'unknown (OID=' || x || ')' END)",
    "CREATE MACRO pg_current_database() AS (SELECT any_value(datname_) FROM "
    "pg_catalog_.pg_database_ WHERE NOT datistemplate_)",
    "CREATE MACRO pg_current_schema() AS 'public'",
    "CREATE MACRO pg_current_schemas(x) AS CASE WHEN x THEN ['pg_catalog', 'public'] ELSE "
    "['public'] END",
    "CREATE MACRO pg_version() AS 'PostgreSQL 15.8 (sparseq)'",
    f"""CREATE MACRO pg_format_type(o, m) AS (SELECT CASE
        WHEN m >= 4 AND type_ IN ('varchar', 'bpchar') THEN name_ || '(' || m - 4 || ')'
        WHEN m >= 0 AND type_ IN ('time', 'timetz', 'timestamp', 'timestamptz')
        THEN replace(name_, ' with', '(' || m || ') with') ELSE name_ END
        FROM (SELECT any_value(typname_) AS type_, any_value(CASE
        WHEN typcategory_ = 'A' AND typname_ LIKE '\\_%' ESCAPE '\\'
        THEN (CASE typname_[2:] {_SPELLED} ELSE typname_[2:] END) || '[]'
        ELSE (CASE typname_ {_SPELLED} ELSE typname_ END) END) AS name_
        FROM pg_catalog_.pg_type_ WHERE oid_ = o))""",
    f"""CREATE MACRO pg_to_regtype(x) AS (SELECT any_value(oid_) FROM pg_catalog_.pg_type_ WHERE
        typname_ = CASE lower(x) {_BACK} ELSE pg_unqualified(lower(x)) END)""",
    "CREATE MACRO pg_to_regclass(x) AS (SELECT any_value(c_.oid_ ORDER BY c_.relnamespace_ <> "
    "2200) FROM "
    "pg_catalog_.pg_class_ AS c_ WHERE c_.relname_ = pg_unqualified(x))",
    "CREATE MACRO pg_regclass_oid(x) AS coalesce(TRY_CAST(x AS UINTEGER), "
    "pg_to_regclass(x::VARCHAR))",
    "CREATE MACRO pg_regtype_oid(x) AS coalesce(TRY_CAST(x AS UINTEGER), "
    "pg_to_regtype(x::VARCHAR))",
    "CREATE MACRO pg_regproc_oid(x) AS coalesce(TRY_CAST(x AS UINTEGER), (SELECT min(oid_) FROM "
    "pg_catalog_.pg_proc_ WHERE proname_ = pg_unqualified(x::VARCHAR)))",
    "CREATE MACRO pg_regclass_name(x) AS coalesce((SELECT any_value(CASE WHEN n_.nspname_ IN "
    "('public', 'pg_catalog') THEN c_.relname_ ELSE n_.nspname_ || '.' || c_.relname_ END) FROM "
    "pg_catalog_.pg_class_ AS c_ JOIN pg_catalog_.pg_namespace_ AS n_ ON n_.oid_ = "
    "c_.relnamespace_ WHERE "
    "c_.oid_::VARCHAR = x::VARCHAR), CASE WHEN x::VARCHAR = '0' THEN '-' ELSE x::VARCHAR END)",
    "CREATE MACRO pg_regtype_name(x) AS coalesce(pg_format_type(TRY_CAST(x AS UINTEGER), NULL), "
    "CASE WHEN x::VARCHAR = '0' THEN '-' ELSE x::VARCHAR END)",
    "CREATE MACRO pg_regproc_name(x) AS coalesce((SELECT any_value(proname_) FROM "
    "pg_catalog_.pg_proc_ "
    "WHERE oid_::VARCHAR = x::VARCHAR), CASE WHEN x::VARCHAR = '0' THEN '-' ELSE "
    "pg_unqualified(x) END)",
    "CREATE MACRO pg_regnamespace_name(x) AS coalesce((SELECT any_value(nspname_) FROM "
    "pg_catalog_.pg_namespace_ WHERE oid_::VARCHAR = x::VARCHAR), x::VARCHAR)",
    "CREATE MACRO pg_regrole_name(x) AS coalesce((SELECT any_value(rolname_) FROM "
    "pg_catalog_.pg_authid_ WHERE oid_::VARCHAR = x::VARCHAR), x::VARCHAR)",
    "CREATE MACRO pg_table_is_visible(x) AS coalesce((SELECT any_value(relnamespace_ IN (11, "
    "2200)) "
    "FROM pg_catalog_.pg_class_ WHERE oid_ = x), NULL)",
    "CREATE MACRO pg_type_is_visible(x) AS coalesce((SELECT any_value(typnamespace_ IN (11, 2200)) "
    "FROM pg_catalog_.pg_type_ WHERE oid_ = x), NULL)",
    *(
        f"CREATE MACRO pg_{kind}_is_visible(x) AS true"
        for kind in (
            "function",
            "operator",
            "opclass",
            "opfamily",
            "collation",
            "conversion",
            "statistics_obj",
            "ts_config",
            "ts_dict",
            "ts_parser",
            "ts_template",
        )
    ),
    f"CREATE MACRO pg_obj_description(o) AS ({_DESCRIPTION} 0), (o, k) AS ({_DESCRIPTION} 0 AND "
    "classoid_ = pg_to_regclass(k))",
    f"CREATE MACRO pg_col_description(o, i) AS ({_DESCRIPTION} i)",
    "CREATE MACRO pg_encoding_to_char(x) AS CASE x WHEN 6 THEN 'UTF8' WHEN 0 THEN 'SQL_ASCII' ELSE "
    "'' END",
    "CREATE MACRO pg_char_to_encoding(x) AS CASE upper(x) WHEN 'UTF8' THEN 6 WHEN 'SQL_ASCII' THEN "
    "0 ELSE -1 END",
    f"CREATE MACRO pg_current_setting(a) AS {_SETTINGS}[lower(a)], (a, m) AS {_SETTINGS}[lower(a)]",
    "CREATE MACRO pg_set_config(a, b, c) AS b",
    "CREATE MACRO pg_array_to_string(a, s) AS CASE WHEN a IS NOT NULL THEN "
    "coalesce(list_aggregate(a::VARCHAR[], 'string_agg', s), '') END, "
    "(a, s, n) AS list_aggregate(list_transform(a::VARCHAR[], lambda x: coalesce(x, n)), "
    "'string_agg', s)",
    "CREATE MACRO pg_array_upper(a, n) AS CASE WHEN len(a) > 0 AND n = 1 THEN len(a) END",
    "CREATE MACRO pg_array_lower(a, n) AS CASE WHEN len(a) > 0 AND n = 1 THEN 1 END",
    "CREATE MACRO pg_array_length(a, n) AS CASE WHEN len(a) > 0 AND n = 1 THEN len(a) END",
    "CREATE MACRO pg_cardinality(a) AS len(a)",
    "CREATE MACRO pg_array_position(a, v) AS list_position(a, v)",
    "CREATE MACRO pg_size_pretty(x) AS x || ' bytes'",
    "CREATE MACRO pg_tablespace_location(x) AS ''",
    "CREATE MACRO pg_acldefault(a, b) AS NULL::VARCHAR[]",
    "CREATE MACRO pg__pg_expandarray(a) AS NULL::STRUCT(x INTEGER, n INTEGER)",
    "CREATE MACRO pg_btrim(x) AS trim(x), (x, c) AS trim(x, c)",
    "CREATE MACRO pg_now() AS now()",
    "CREATE MACRO pg_txid_current() AS 1::BIGINT",
    "CREATE MACRO pg_backend_pid() AS 0",
    "CREATE MACRO pg_my_temp_schema() AS 0::UINTEGER",
    "CREATE MACRO pg_to_char(x, f) AS x::VARCHAR",
    "CREATE MACRO pg_get_keywords() AS TABLE SELECT * FROM pg_catalog_.keywords",
    "CREATE MACRO pg_get_publication_tables(x) AS TABLE SELECT NULL::UINTEGER AS relid WHERE false",
    "CREATE MACRO pg_partition_ancestors(x) AS TABLE SELECT x AS relid WHERE false",
    "CREATE MACRO pg_options_to_table(x) AS TABLE SELECT '' AS option_name, '' AS option_value "
    "WHERE false",
    "CREATE MACRO pg_aclexplode(x) AS TABLE SELECT 0::UINTEGER AS grantor, 0::UINTEGER AS grantee, "
    "'' AS privilege_type, false AS is_grantable WHERE false",
    *(_many(name, _TEXT) for name in _ONE),
    *(_many(name, "true") for name in _TRUE),
    *(
        _many(name, "0::BIGINT")
        for name in (
            "pg_total_relation_size",
            "pg_relation_size",
            "pg_table_size",
            "pg_indexes_size",
            "pg_database_size",
            "pg_stat_get_numscans",
            "pg_tablespace_size",
        )
    ),
    *(
        _many(name, "false")
        for name in (
            "pg_is_in_recovery",
            "pg_relation_is_publishable",
            "pg_is_other_temp_schema",
            "pg_is_wal_replay_paused",
        )
    ),
    *(
        _many(name, "true")
        for name in (
            "pg_advisory_unlock",
            "pg_advisory_unlock_all",
            "pg_try_advisory_lock",
            "pg_advisory_lock",
        )
    ),
]
"""In the order in which they are made."""
OWN = frozenset(macro.split("MACRO ")[1].split("(")[0].strip() for macro in MACROS)

HIDDEN = (
    "pg_class",
    "pg_type",
    "pg_namespace",
    "pg_proc",
    "pg_authid",
    "pg_description",
    "pg_database",
    "keywords",
)
"""Tables that macros ask, under names that no argument can have."""


def hidden(table: str, columns: Sequence[str]) -> str:
    """Return SQL that makes the view by which macros ask a table."""
    named = ", ".join(f'"{column}" AS "{column}_"' for column in columns)
    return f"CREATE VIEW pg_catalog_.{table}_ AS SELECT {named} FROM pg_catalog_.{table}"


# -- views of pg_catalog and information_schema, over the tables that are filled -------------------

_RELATIONS = (
    "FROM pg_catalog_.pg_class AS c JOIN pg_catalog_.pg_namespace AS n ON n.oid = c.relnamespace"
)
_TYPE = "pg_format_type(a.atttypid, NULL)"
_DATABASE = "pg_current_database()"

VIEWS = {
    "pg_roles": (
        "SELECT rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, "
        "rolreplication, rolconnlimit, '********' AS rolpassword, rolvaliduntil, rolbypassrls, "
        "NULL::VARCHAR[] AS rolconfig, oid FROM pg_catalog_.pg_authid UNION ALL "
        "SELECT pg_current_user(), false, true, false, false, true, false, -1, '********', NULL, "
        "false, NULL, 16381 WHERE pg_current_user() NOT IN (SELECT rolname FROM "
        "pg_catalog_.pg_authid)"
    ),
    "pg_user": (
        "SELECT rolname AS usename, oid AS usesysid, rolcreatedb AS usecreatedb, rolsuper AS "
        "usesuper, rolreplication AS userepl, rolbypassrls AS usebypassrls, '********' AS passwd, "
        "NULL::TIMESTAMPTZ AS valuntil, NULL::VARCHAR[] AS useconfig FROM pg_catalog_.pg_roles "
        "WHERE rolcanlogin"
    ),
    "pg_tables": (
        "SELECT n.nspname AS schemaname, c.relname AS tablename, pg_get_userbyid(c.relowner) AS "
        "tableowner, NULL::VARCHAR AS tablespace, c.relhasindex AS hasindexes, c.relhasrules AS "
        "hasrules, c.relhastriggers AS hastriggers, c.relrowsecurity AS rowsecurity "
        f"{_RELATIONS} WHERE c.relkind IN ('r', 'p')"
    ),
    "pg_views": (
        "SELECT n.nspname AS schemaname, c.relname AS viewname, pg_get_userbyid(c.relowner) AS "
        f"viewowner, NULL::VARCHAR AS definition {_RELATIONS} WHERE c.relkind = 'v'"
    ),
    "pg_settings": (
        "SELECT a.name, a.setting, k.unit, coalesce(k.category, 'Customized Options') AS category, "
        "k.short_desc, k.extra_desc, coalesce(k.context, 'user') AS context, coalesce(k.vartype, "
        "'string') AS vartype, 'default' AS source, k.min_val, k.max_val, k.enumvals, k.boot_val, "
        "k.reset_val, NULL::VARCHAR AS sourcefile, NULL::INTEGER AS sourceline, false AS "
        "pending_restart FROM (SELECT unnest(map_keys(s)) AS name, unnest(map_values(s)) AS "
        "setting FROM (SELECT getvariable('pg_settings') AS s)) AS a LEFT JOIN "
        "pg_catalog_.known_settings AS k ON lower(k.name) = a.name"
    ),
    "pg_stat_user_tables": (
        "SELECT c.oid AS relid, n.nspname AS schemaname, c.relname, 0::BIGINT AS seq_scan, "
        "0::BIGINT AS n_live_tup, 0::BIGINT AS n_dead_tup, NULL::TIMESTAMPTZ AS last_vacuum, "
        "NULL::TIMESTAMPTZ AS last_autovacuum, NULL::TIMESTAMPTZ AS last_analyze "
        f"{_RELATIONS} WHERE c.relkind = 'r' AND n.oid NOT IN (11, 99) AND n.nspname <> "
        "'information_schema'"
    ),
    "information_schema.information_schema_catalog_name": f"SELECT {_DATABASE} AS catalog_name",
    "information_schema.schemata": (
        f"SELECT {_DATABASE} AS catalog_name, nspname AS schema_name, pg_get_userbyid(nspowner) AS "
        "schema_owner, NULL::VARCHAR AS default_character_set_catalog, NULL::VARCHAR AS "
        "default_character_set_schema, NULL::VARCHAR AS default_character_set_name, "
        "NULL::VARCHAR AS sql_path FROM pg_catalog_.pg_namespace"
    ),
    "information_schema.tables": (
        f"SELECT {_DATABASE} AS table_catalog, n.nspname AS table_schema, c.relname AS table_name, "
        "CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'BASE TABLE' END AS table_type, NULL::VARCHAR AS "
        "self_referencing_column_name, NULL::VARCHAR AS reference_generation, NULL::VARCHAR AS "
        "user_defined_type_catalog, NULL::VARCHAR AS user_defined_type_schema, NULL::VARCHAR AS "
        "user_defined_type_name, 'NO' AS is_insertable_into, 'NO' AS is_typed, NULL::VARCHAR AS "
        f"commit_action {_RELATIONS} WHERE c.relkind IN ('r', 'v', 'p')"
    ),
    "information_schema.views": (
        f"SELECT {_DATABASE} AS table_catalog, n.nspname AS table_schema, c.relname AS table_name, "
        "NULL::VARCHAR AS view_definition, 'NONE' AS check_option, 'NO' AS is_updatable, 'NO' AS "
        "is_insertable_into, 'NO' AS is_trigger_updatable, 'NO' AS is_trigger_deletable, 'NO' AS "
        f"is_trigger_insertable_into {_RELATIONS} WHERE c.relkind = 'v'"
    ),
    "information_schema.columns": (
        f"SELECT {_DATABASE} AS table_catalog, n.nspname AS table_schema, c.relname AS table_name, "
        "a.attname AS column_name, a.attnum::INTEGER AS ordinal_position, NULL::VARCHAR AS "
        "column_default, CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END AS is_nullable, "
        f"CASE WHEN t.typcategory = 'A' THEN 'ARRAY' ELSE {_TYPE} END AS data_type, NULL::INTEGER "
        "AS character_maximum_length, CASE WHEN t.typname IN ('text', 'varchar', 'bpchar') THEN "
        "1073741824 END AS character_octet_length, CASE t.typname WHEN 'int2' THEN 16 WHEN 'int4' "
        "THEN 32 WHEN 'int8' THEN 64 WHEN 'float4' THEN 24 WHEN 'float8' THEN 53 END AS "
        "numeric_precision, CASE WHEN t.typname IN ('int2', 'int4', 'int8', 'float4', 'float8') "
        "THEN 2 WHEN t.typname = 'numeric' THEN 10 END AS numeric_precision_radix, CASE WHEN "
        "t.typname IN ('int2', 'int4', 'int8') THEN 0 END AS numeric_scale, CASE t.typname WHEN "
        "'date' THEN 0 WHEN 'timestamp' THEN 6 WHEN 'timestamptz' THEN 6 WHEN 'time' THEN 6 END AS "
        "datetime_precision, NULL::VARCHAR AS interval_type, NULL::INTEGER AS interval_precision, "
        "NULL::VARCHAR AS character_set_catalog, NULL::VARCHAR AS character_set_schema, "
        "NULL::VARCHAR AS character_set_name, NULL::VARCHAR AS collation_catalog, NULL::VARCHAR AS "
        "collation_schema, NULL::VARCHAR AS collation_name, NULL::VARCHAR AS domain_catalog, "
        f"NULL::VARCHAR AS domain_schema, NULL::VARCHAR AS domain_name, {_DATABASE} AS "
        f"udt_catalog, "
        "'pg_catalog' AS udt_schema, t.typname AS udt_name, NULL::VARCHAR AS scope_catalog, "
        "NULL::VARCHAR AS scope_schema, NULL::VARCHAR AS scope_name, NULL::INTEGER AS "
        "maximum_cardinality, a.attnum::VARCHAR AS dtd_identifier, 'NO' AS is_self_referencing, "
        "'NO' AS is_identity, NULL::VARCHAR AS identity_generation, NULL::VARCHAR AS "
        "identity_start, NULL::VARCHAR AS identity_increment, NULL::VARCHAR AS identity_maximum, "
        "NULL::VARCHAR AS identity_minimum, 'NO' AS identity_cycle, 'NEVER' AS is_generated, "
        "NULL::VARCHAR AS generation_expression, 'NO' AS is_updatable "
        f"{_RELATIONS} JOIN pg_catalog_.pg_attribute AS a ON a.attrelid = c.oid "
        "JOIN pg_catalog_.pg_type AS t ON t.oid = a.atttypid "
        "WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'v', 'f', 'p')"
    ),
}
"""SELECT by name; names in information_schema have it before theirs."""


# -- the tables of pg_catalog and information_schema, with our own tables in them ------------------

FIRST_OID = 16_384
OWNER = 10
_TYPES = {
    "oid": "UINTEGER",
    "xid": "UINTEGER",
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "bool": "BOOLEAN",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "bytea": "BLOB",
    "timestamptz": "TIMESTAMPTZ",
    "int2vector": "SMALLINT[]",
    "_int2": "SMALLINT[]",
    "oidvector": "UINTEGER[]",
    "_oid": "UINTEGER[]",
    "_float4": "FLOAT[]",
    "cardinal_number": "INTEGER",
    "_int8": "BIGINT[]",
    "_text": "VARCHAR[]",
    "_name": "VARCHAR[]",
    "_aclitem": "VARCHAR[]",
    "_char": "VARCHAR[]",
    "_regtype": "VARCHAR[]",
    "interval": "INTERVAL",
}
_SCHEMAS = {"public": 2200, "released": 16_382, "budget": 16_383}
_NAMES = {
    16: "boolean",
    20: "bigint",
    21: "smallint",
    23: "integer",
    25: "text",
    700: "real",
    701: "double precision",
    1082: "date",
    1083: "time without time zone",
    1700: "numeric",
    1114: "timestamp without time zone",
    1184: "timestamp with time zone",
    2950: "uuid",
}


@dataclass(frozen=True)
class Postgresql:
    """The catalogue of a fresh PostgreSQL.

    Attributes:
        columns: Name and type of the columns of each table; those of information_schema have its
            name before theirs.
        rows: Columns and rows of some of them.
        functions: The names of all functions.
        keywords: Rows of pg_get_keywords().
    """

    columns: Mapping[str, Sequence[tuple[str, str]]]
    rows: Mapping[str, Mapping[str, Any]]
    functions: frozenset[str]
    keywords: Sequence[Sequence[Any]]

    @classmethod
    @cache
    def fresh(cls) -> Postgresql:
        """Read it."""
        path = Path(__file__).with_name("postgresql15.json.gz")
        data = json.loads(gzip.decompress(path.read_bytes()))
        procs = data["rows"]["pg_proc"]
        at = procs["columns"].index("proname")
        functions = frozenset(row[at] for row in procs["rows"])
        return cls(data["columns"], data["rows"], functions, data["keywords"])


@dataclass(frozen=True)
class CatalogueTable:
    """A table that clients see: schema, name, words, columns with type and words, and which
    are NOT NULL."""

    schema: str
    name: str
    words: str
    columns: Sequence[tuple[str, int, str]]
    not_null: frozenset[str] = frozenset()


def declare(
    con: duckdb.DuckDBPyConnection,
    postgresql: Postgresql,
    catalog: Catalog,
    database: str,
    public: Mapping[str, pa.Table],
) -> dict[str, set[str]]:
    """Make all schemas and tables; return the names of the tables of each schema."""
    for schema in ("pg_catalog_", "information_schema_", "public", "people", "released", "budget"):
        con.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
    _fresh(con, postgresql)
    own = [*listed(catalog), *OURS]
    _ours(con, own, database)
    keywords = ("word", "catcode", "barelabel", "catdesc", "baredesc")
    for hides in HIDDEN:
        con.execute(hidden(hides, [c for c, _ in postgresql.columns.get(hides, ())] or keywords))
    for macro in MACROS:
        con.execute(macro)
    for key, select in VIEWS.items():
        schema, _, name = key.rpartition(".")
        con.execute(f"CREATE VIEW {schema or 'pg_catalog'}_.{name} AS {select}")
    tables: dict[str, set[str]] = {"pg_catalog": set(), "information_schema": set()}
    for key in postgresql.columns:
        schema, _, name = key.rpartition(".")
        tables[schema or "pg_catalog"].add(name)
    tables |= {"public": set(), "people": set(), "released": set(), "budget": set()}
    for table in catalog.tables:
        where = "people" if table.private else "public"
        columns = ", ".join(f"{_name(c.name)} {c.type}" for c in table.columns)
        con.execute(f"CREATE TABLE {where}.{_name(table.name)} ({columns})")
        tables[where].add(table.name.lower())
        if not table.private and table.name in public:
            con.register("incoming", public[table.name])
            con.execute(f"INSERT INTO public.{_name(table.name)} SELECT * FROM incoming")
            con.unregister("incoming")
    return tables


def _fresh(con: duckdb.DuckDBPyConnection, postgresql: Postgresql) -> None:
    for key, columns in postgresql.columns.items():
        schema, _, name = key.rpartition(".")
        named = ", ".join(f"{_name(c)} {_TYPES.get(t, 'VARCHAR')}" for c, t in columns)
        if key in VIEWS or name.startswith("_pg_"):
            continue
        con.execute(f"CREATE TABLE {schema or 'pg_catalog'}_.{_name(name)} ({named})")
    settings = dict(postgresql.columns["pg_settings"])
    named = ", ".join(f"{_name(c)} {_TYPES.get(t, 'VARCHAR')}" for c, t in settings.items())
    con.execute(f"CREATE TABLE pg_catalog_.known_settings ({named})")
    for name, table in postgresql.rows.items():
        types = dict(postgresql.columns.get(name, settings.items()))
        cells = [_cell(c, types[c]) for c in table["columns"]]
        texts = list(zip(*table["rows"], strict=True))
        raw = pa.table(
            {
                c: pa.array([None if v is None else _text(v) for v in column], pa.string())
                for c, column in zip(table["columns"], texts, strict=True)
            }
        )
        con.register("incoming", raw)
        names = ", ".join(map(_name, table["columns"]))
        con.execute(
            f"INSERT INTO pg_catalog_.{name} ({names}) SELECT {', '.join(cells)} FROM incoming"
        )
        con.unregister("incoming")
    con.execute(
        "CREATE TABLE pg_catalog_.keywords (word VARCHAR, catcode VARCHAR, "
        "barelabel BOOLEAN, catdesc VARCHAR, baredesc VARCHAR)"
    )
    con.executemany("INSERT INTO pg_catalog_.keywords VALUES (?, ?, ?, ?, ?)", postgresql.keywords)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join("NULL" if v is None else str(v) for v in value) + "]"
    return str(value)


def _cell(column: str, type: str) -> str:
    if type in ("int2vector", "oidvector"):
        split = f"string_split({_name(column)}, ' ')"
        return f"CASE WHEN {_name(column)} = '' THEN [] ELSE {split} END::{_TYPES[type]}"
    return f"{_name(column)}::{_TYPES.get(type, 'VARCHAR')}"


def listed(catalog: Catalog) -> list[CatalogueTable]:
    """Return a store's tables as clients see them."""
    found = []
    for table in catalog.tables:
        words = "rows about people: ask for counts, sums and averages" if table.private else ""
        columns = []
        for column in table.columns:
            said = ["whom the row is about"] if column.name == table.user else []
            if column.bounds is not None:
                low, high = (bound_text(column, end) for end in column.bounds)
                said.append(f"{low} to {high}")
            if column.keys is not None:
                said.append(f"{len(column.keys):,} declared values")
            columns.append((column.name, type_of(column), "; ".join(said)))
        found.append(CatalogueTable("public", table.name, words, columns, table.not_null))
    return found


OURS = (
    CatalogueTable(
        "released",
        "releases",
        "every answer that was given; each is the table r1, r2, …",
        [
            ("release", 20, "its number"),
            ("released_at", 1114, "in UTC"),
            ("query", 25, ""),
            ("coordinates", 20, "how many numbers were noised"),
            ("sigma", 701, "of the noise, the largest"),
            ("confidence", 701, "of intervals"),
        ],
    ),
    CatalogueTable(
        "budget",
        "guarantee",
        "what everything ever released is worth",
        [
            ("kappa", 701, "of zCDP, but for keys_delta"),
            ("keys_delta", 701, "what privately found keys may fail with"),
            ("norm_budget", 701, "of each person"),
            ("mu", 701, "of Gaussian differential privacy"),
            ("releases", 20, "so far"),
        ],
    ),
)


def _ours(con: duckdb.DuckDBPyConnection, own: Sequence[CatalogueTable], database: str) -> None:
    for name, oid in _SCHEMAS.items():
        if name != "public":
            _insert(con, "pg_namespace", oid=oid, nspname=name, nspowner=OWNER)
    _insert(
        con,
        "pg_database",
        oid=5,
        datname=database,
        datdba=OWNER,
        encoding=6,
        datlocprovider="c",
        datistemplate=False,
        datallowconn=True,
        datconnlimit=-1,
        datfrozenxid=716,
        datminmxid=1,
        dattablespace=1663,
        datcollate="C",
        datctype="C",
    )
    _insert(
        con,
        "pg_authid",
        oid=OWNER,
        rolname="curator",
        rolsuper=True,
        rolinherit=True,
        rolcreaterole=True,
        rolcreatedb=True,
        rolcanlogin=False,
        rolreplication=False,
        rolbypassrls=True,
        rolconnlimit=-1,
    )
    sizes = dict(con.execute("SELECT oid, typlen FROM pg_catalog_.pg_type").fetchall())
    for place, relation in enumerate(own):
        _insert_relation(con, relation, FIRST_OID + 3 * place, sizes)
        _insert_row_type(con, relation, FIRST_OID + 3 * place)


def _insert_row_type(con: duckdb.DuckDBPyConnection, relation: CatalogueTable, oid: int) -> None:
    """The type of a table's rows, and that of their arrays."""
    common = {
        "typnamespace": _SCHEMAS[relation.schema],
        "typowner": OWNER,
        "typlen": -1,
        "typbyval": False,
        "typispreferred": False,
        "typisdefined": True,
        "typdelim": ",",
        "typmodin": "-",
        "typmodout": "-",
        "typalign": "d",
        "typstorage": "x",
        "typnotnull": False,
        "typbasetype": 0,
        "typtypmod": -1,
        "typndims": 0,
        "typcollation": 0,
    }
    _insert(
        con,
        "pg_type",
        oid=oid + 2,
        typname=relation.name,
        typtype="c",
        typcategory="C",
        typrelid=oid,
        typsubscript="-",
        typelem=0,
        typarray=oid + 1,
        typinput="record_in",
        typoutput="record_out",
        typreceive="record_recv",
        typsend="record_send",
        typanalyze="-",
        **common,
    )
    _insert(
        con,
        "pg_type",
        oid=oid + 1,
        typname=f"_{relation.name}",
        typtype="b",
        typcategory="A",
        typrelid=0,
        typsubscript="array_subscript_handler",
        typelem=oid + 2,
        typarray=0,
        typinput="array_in",
        typoutput="array_out",
        typreceive="array_recv",
        typsend="array_send",
        typanalyze="array_typanalyze",
        **common,
    )


def _insert_relation(
    con: duckdb.DuckDBPyConnection, relation: CatalogueTable, oid: int, sizes: Mapping[int, int]
) -> None:
    _insert(
        con,
        "pg_class",
        oid=oid,
        relname=relation.name,
        relnamespace=_SCHEMAS[relation.schema],
        reltype=oid + 2,
        reloftype=0,
        relowner=OWNER,
        relam=2,
        relfilenode=oid,
        reltablespace=0,
        relpages=0,
        reltuples=-1,
        relallvisible=0,
        reltoastrelid=0,
        relhasindex=False,
        relisshared=False,
        relpersistence="p",
        relkind="r",
        relnatts=len(relation.columns),
        relchecks=0,
        relhasrules=False,
        relhastriggers=False,
        relhassubclass=False,
        relrowsecurity=False,
        relforcerowsecurity=False,
        relispopulated=True,
        relreplident="d",
        relispartition=False,
        relrewrite=0,
        relfrozenxid=741,
        relminmxid=1,
    )
    if relation.words:
        _insert(
            con, "pg_description", objoid=oid, classoid=1259, objsubid=0, description=relation.words
        )
    for number, (name, type, words) in enumerate(relation.columns, 1):
        _insert(
            con,
            "pg_attribute",
            attrelid=oid,
            attname=name,
            atttypid=type,
            attstattarget=-1,
            attlen=sizes[type],
            attnum=number,
            attndims=0,
            attcacheoff=-1,
            atttypmod=-1,
            attbyval=sizes[type] > 0,
            attalign="d" if sizes[type] == 8 else "i",
            attstorage="p",
            attcompression="",
            attnotnull=name in relation.not_null,
            atthasdef=False,
            atthasmissing=False,
            attidentity="",
            attgenerated="",
            attisdropped=False,
            attislocal=True,
            attinhcount=0,
            attcollation=100 if type == 25 else 0,
        )
        if words:
            _insert(
                con, "pg_description", objoid=oid, classoid=1259, objsubid=number, description=words
            )
    con.execute(
        f"INSERT INTO pg_catalog_.pg_attribute SELECT * REPLACE ({oid} AS attrelid) FROM "
        "pg_catalog_.pg_attribute WHERE attrelid = 1259 AND attnum < 0"
    )


def _insert(con: duckdb.DuckDBPyConnection, table: str, **values: Any) -> None:
    names, marks = ", ".join(map(_name, values)), ", ".join("?" * len(values))
    con.execute(f"INSERT INTO pg_catalog_.{table} ({names}) VALUES ({marks})", [*values.values()])


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
