"""Functions of pg_catalog that clients call, as macros: `f` of PostgreSQL is `pg_f` here.

If PostgreSQL's name begins with `pg_`, the macro's name has that prefix only once. A macro is text
that replaces a call, so it reads tables under names that no argument can have: `oid_` of
`pg_class_` is pg_class's oid.
"""

from __future__ import annotations

from collections.abc import Sequence

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
"""The macros, in the order of their creation."""
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
"""Tables that macros read, under names that no argument can have."""


def hidden(table: str, columns: Sequence[str]) -> str:
    """Return SQL that makes the view by which macros read a table."""
    named = ", ".join(f'"{column}" AS "{column}_"' for column in columns)
    return f"CREATE VIEW pg_catalog_.{table}_ AS SELECT {named} FROM pg_catalog_.{table}"
