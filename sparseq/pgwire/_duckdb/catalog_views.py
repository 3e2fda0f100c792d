"""Views of pg_catalog and information_schema, over the filled tables."""

from __future__ import annotations

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
"""SELECTs by name; names in information_schema have that prefix."""
