"""Make `cdnow.parquet` from the CDNOW master text file.

    python data/make_cdnow.py CDNOW_master.txt data/cdnow.parquet

The same text and the same PyArrow give the same bytes; where the text is from, see README.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SCHEMA = pa.schema(
    [
        pa.field("customer_id", pa.int32(), nullable=False),
        pa.field("date", pa.date32(), nullable=False),
        pa.field("quantity", pa.int32(), nullable=False),
        pa.field("amount", pa.float64(), nullable=False),
    ]
)
PURCHASES = 69_659
CUSTOMERS = 23_570
FIRST_DAY, LAST_DAY = date(1997, 1, 1), date(1998, 6, 30)


def parse(lines: Iterable[str]) -> pa.Table:
    """One purchase a line, `customer yyyymmdd quantity dollars`, sorted by date, then customer.

    A heading and blank lines are skipped; purchases of one customer on one day keep their order.

    >>> parse(["00002 19970112 1 12.00", "00001 19970101 1 11.77"]).to_pylist()[0]["amount"]
    11.77
    """
    fields = (line.split() for line in lines)
    purchases = [
        (int(customer), datetime.strptime(day, "%Y%m%d").date(), int(quantity), float(amount))
        for customer, day, quantity, amount in (f for f in fields if f and f[0].isdigit())
    ]
    purchases.sort(key=lambda purchase: (purchase[1], purchase[0]))
    columns = zip(*purchases, strict=True) if purchases else [()] * len(SCHEMA)
    arrays = [pa.array(values, f.type) for values, f in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def check(table: pa.Table) -> None:
    """Raise ValueError unless the table is the whole master file."""
    days = pc.min_max(table["date"]).as_py()
    found = (table.num_rows, len(pc.unique(table["customer_id"])), days["min"], days["max"])
    expected = (PURCHASES, CUSTOMERS, FIRST_DAY, LAST_DAY)
    if found != expected:
        raise ValueError(
            f"not the CDNOW master file: (purchases, customers, first day, last day) is {found}, "
            f"should be {expected}"
        )


def write(table: pa.Table, path: Path) -> None:
    """Write with settings that leave nothing to a default, so that the bytes can be reproduced."""
    pq.write_table(
        table,
        path,
        version="2.6",
        compression="zstd",
        compression_level=19,
        use_dictionary=True,
        row_group_size=PURCHASES,
        store_schema=False,
    )


@click.command()
@click.argument("source", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
def main(source: Path, target: Path) -> None:
    """Make TARGET (Parquet) from SOURCE, the CDNOW master text file."""
    with source.open(encoding="ascii") as text:
        table = parse(text)
    try:
        check(table)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    write(table, target)
    click.echo(f"{target}: {table.num_rows:,} purchases, {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
