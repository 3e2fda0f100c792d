"""A few hundred rows in the tables of TPC-H, with values that its 22 questions look for."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pyarrow as pa

import sparseq
from benchmarks.tpch import BOUNDS, KEYS, LINKS, MOST, PEOPLE

COUNTS = {
    "region": 5,
    "nation": 25,
    "supplier": 20,
    "part": 60,
    "partsupp": 120,
    "customer": 60,
    "orders": 240,
    "lineitem": 700,
}
NATIONS = ("FRANCE", "GERMANY", "BRAZIL", "CANADA", "SAUDI ARABIA")
COLORS = ("green almond", "forest rose", "plain white")
CHOICES = {
    "r_name": ("EUROPE", "ASIA", "AMERICA", "AFRICA", "MIDDLE EAST"),
    "n_name": NATIONS,
    "p_mfgr": ("Manufacturer#1", "Manufacturer#2"),
    "p_brand": ("Brand#12", "Brand#23", "Brand#45"),
    "p_type": ("LARGE BRASS", "PROMO STEEL", "ECONOMY ANODIZED STEEL", "MEDIUM POLISHED TIN"),
    "p_container": ("SM CASE", "MED BOX", "LG PACK"),
    "p_name": COLORS,
    "c_mktsegment": ("BUILDING", "MACHINERY"),
    "o_orderstatus": ("F", "O"),
    "o_orderpriority": KEYS["o_orderpriority"],
    "l_shipmode": KEYS["l_shipmode"],
    "l_returnflag": KEYS["l_returnflag"],
    "l_linestatus": KEYS["l_linestatus"],
    "l_shipinstruct": ("DELIVER IN PERSON", "NONE"),
}
COLUMNS = {
    "region": "r_regionkey=own r_name",
    "nation": "n_nationkey=own n_name n_regionkey=region",
    "supplier": "s_suppkey=own s_name=text s_address=text s_nationkey=nation s_phone=text "
    "s_acctbal=-999:9999 s_comment=text",
    "part": "p_partkey=own p_name p_mfgr p_brand p_type p_size=1-50 p_container "
    "p_retailprice=900:2000",
    "partsupp": "ps_partkey=part ps_suppkey=supplier ps_availqty=1-9999 ps_supplycost=1:1000",
    "customer": "c_custkey=own c_name=text c_address=text c_nationkey=nation c_phone=text "
    "c_acctbal=-999:9999 c_mktsegment c_comment=text",
    "orders": "o_orderkey=own o_custkey=customer o_orderstatus o_totalprice=900:400000 "
    "o_orderdate=day o_orderpriority o_shippriority=0-1 o_comment=text",
    "lineitem": "l_orderkey=orders l_partkey=part l_suppkey=supplier l_linenumber=1-7 "
    "l_quantity=1:50 l_extendedprice=900:104000 l_discount=0:0.1 l_tax=0:0.08 l_returnflag "
    "l_linestatus l_shipdate=day l_commitdate=day l_receiptdate=day l_shipinstruct l_shipmode",
}
"""Of each column: `own`, a row's number; a table, the number of one of its rows; `1-7`, a whole
number; `0:1`, a number; `day`; `text`; nothing: one of CHOICES."""


def rows() -> dict[str, pa.Table]:
    """Return all tables by name.

    Example:
        >>> rows()["orders"].num_rows
        240
    """
    rng = random.Random(22)
    tables = {}
    for table, said in COLUMNS.items():
        columns = [part.partition("=")[::2] for part in said.split()]
        made = {
            name: [_value(rng, name, of, i) for i in range(COUNTS[table])] for name, of in columns
        }
        tables[table] = pa.table(made)
    return tables


def _value(rng: random.Random, name: str, of: str, row: int) -> Any:
    if of == "own":
        return row + 1
    if of in COUNTS:
        return rng.randint(1, COUNTS[of])
    if of == "day":
        return dt.date(1992, 1, 1) + dt.timedelta(days=rng.randrange(2556))
    if of == "text":
        words = ["special", "requests", "complaints", "Customer", "13-5", "22-1"]
        return f"{rng.choice(words)} {rng.choice(words)} {row}"
    if "-" in of and ":" not in of:
        return rng.randint(*map(int, of.split("-")))
    if ":" in of:
        low, high = map(float, of.split(":"))
        return round(rng.uniform(low, high), 2)
    return rng.choice(CHOICES[name])


def store() -> sparseq.Store:
    """Return a store of them, as `benchmarks.tpch.store` declares it."""
    tables = rows()
    return sparseq.create(
        None,
        {name: tables.pop(name) for name in PEOPLE},
        user="customer.c_custkey",
        links=LINKS,
        public=tables,
        bounds=BOUNDS,
        keys=KEYS | {"l_suppkey": range(1, COUNTS["supplier"] + 1)},
        most=MOST,
        seed=22,
    )
