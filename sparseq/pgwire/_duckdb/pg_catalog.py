"""The tables of pg_catalog and information_schema, with our own tables in them.

`postgresql15.json.gz` has the catalogue of a fresh PostgreSQL 15: the columns of all tables and
views of both schemas, and the rows that are the same in every database. No setting of a host is in
it.
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

from sparseq.pgwire._duckdb.catalog_functions import HIDDEN, MACROS, hidden
from sparseq.pgwire._duckdb.catalog_views import VIEWS
from sparseq.pgwire.parameter_types import type_of
from sparseq.question.catalog import Catalog, bound_text

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
        columns: Name and type of the columns of each table; tables of information_schema have that
            prefix.
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
        """Read the catalogue from the package."""
        path = Path(__file__).with_name("postgresql15.json.gz")
        data = json.loads(gzip.decompress(path.read_bytes()))
        procs = data["rows"]["pg_proc"]
        at = procs["columns"].index("proname")
        functions = frozenset(row[at] for row in procs["rows"])
        return cls(data["columns"], data["rows"], functions, data["keywords"])


@dataclass(frozen=True)
class CatalogueTable:
    """A table for clients.

    It has a schema, a name, a description, columns with types and descriptions, and the NOT NULL
    columns.
    """

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
    """Return a store's tables in the form for clients."""
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
    """Insert the type of a table's rows, and the type of their arrays."""
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
