"""TPC-H with customers as the people: every order and line carries the key of its customer.

    pip install tpchgen-cli
    tpchgen-cli parquet -s 0.1 --output-dir tpch
    python data/make_tpch.py tpch tpch-people

Reads TPC-H's tables as Parquet, writes customer, orders and lineitem with a column custkey, which
is joined in here, once, and the public tables as they are. Money becomes DOUBLE.
"""

from __future__ import annotations

from pathlib import Path

import click
import duckdb

PRIVATE = {
    "customer": "SELECT c_custkey AS custkey, * EXCLUDE (c_custkey, c_name, c_address, c_comment) "
    "FROM customer",
    "orders": "SELECT o_custkey AS custkey, * EXCLUDE (o_custkey, o_comment, o_clerk) FROM orders",
    "lineitem": "SELECT o_custkey AS custkey, lineitem.* EXCLUDE (l_comment) "
    "FROM lineitem JOIN orders ON o_orderkey = l_orderkey",
}
PUBLIC = ("nation", "region", "supplier", "part", "partsupp")


@click.command()
@click.argument("source", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("target", type=click.Path(file_okay=False, path_type=Path))
def main(source: Path, target: Path) -> None:
    """Write the tables of SOURCE to TARGET, with the customer in every row about one."""
    target.mkdir(exist_ok=True)
    con = duckdb.connect()
    for name in (*PRIVATE, *PUBLIC):
        con.execute(f"CREATE VIEW {name} AS SELECT * FROM '{source / name}.parquet'")
    for name in (*PRIVATE, *PUBLIC):
        sql = PRIVATE.get(name, f"SELECT * FROM {name}")
        types = con.sql(sql).columns, con.sql(sql).types
        columns = ", ".join(
            f'"{c}"::DOUBLE AS "{c}"' if str(t).startswith("DECIMAL") else f'"{c}"'
            for c, t in zip(*types, strict=True)
        )
        con.execute(
            f"COPY (SELECT {columns} FROM ({sql})) TO '{target / name}.parquet' (FORMAT parquet)"
        )
        click.echo(f"{target / name}.parquet")


if __name__ == "__main__":
    main()
