"""Values bound by pgjdbc, in each way that its users write: a count is of the rows that fit."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pgwire.wired import Address, served

JDBC = Path("/usr/share/java/postgresql.jar")
PROGRAM = Path(__file__).with_name("Binding.java")
FITTING = {
    "setDate": "day >= DATE '1997-02-01'",
    "setDate beside a time": "seen >= TIMESTAMP '1997-02-01'",
    "LocalDate": "day >= DATE '1997-02-01'",
    "setTimestamp": "seen >= TIMESTAMP '1997-02-01 12:00:00'",
    "setTimestamp beside a date": "day >= DATE '1997-02-01'",
    "LocalDateTime": "seen >= TIMESTAMP '1997-02-01 12:00:00'",
    "OffsetDateTime": "seen >= TIMESTAMP '1997-02-01 12:00:00'",
    "setInt": "quantity = 3",
    "setLong": "quantity = 3",
    "setBigDecimal": "amount > 12.5",
    "setDouble": "amount > 12.5",
    "setBoolean": "paid",
    "setString": "kind = 'gift'",
    "setArray": "kind IN ('gift', 'own')",
    "setNull": "(CAST(NULL AS timestamp) IS NULL OR seen < CAST(NULL AS timestamp))",
    "interval as a text": "seen >= TIMESTAMP '1997-01-25'",
    "number times an interval": "seen >= TIMESTAMP '1997-01-25'",
}
"""By way of binding, the same condition with its value written out."""


@pytest.fixture(scope="module")
def at() -> Iterator[Address]:
    with served() as address:
        yield address


def said(at: Address, zone: str) -> dict[str, str]:
    """Return what the program prints on a machine of a time zone."""
    url = f"jdbc:postgresql://127.0.0.1:{at.port}/{at.database}"
    command = [
        "java",
        f"-Duser.timezone={zone}",
        "-cp",
        str(JDBC),
        str(PROGRAM),
        url,
        at.user,
        at.token,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return dict(line.split("\t", 1) for line in done.stdout.splitlines())


@pytest.mark.deep
def test_each_way_of_binding_counts_the_rows_that_fit(at: Address) -> None:
    """A repeat is free: the count of each way is the recorded answer to its plain question."""
    if not JDBC.exists() or shutil.which("java") is None:
        pytest.skip("libpostgresql-jdbc-java or Java is not installed")
    found = said(at, "UTC")
    assert len(found) == 2 * len(FITTING) - 1 >= 28  # a simple query has no arrays
    wrong = [f"{name}: {text}" for name, text in found.items() if text.startswith("error")]
    assert not wrong, "\n".join(wrong)
    released = at.store.released
    for name, text in found.items():
        (row,) = at.store.sql(f"SELECT count(*) AS n FROM purchases WHERE {fitting(name)}").rows()
        assert int(text) == row["n"], name
    assert at.store.released == released, "what was bound is another question than what is written"


@pytest.mark.deep
def test_in_another_zone_a_day_is_the_day_and_a_moment_is_refused(at: Address) -> None:
    """The driver writes an offset beside each of them, which a column without a zone has not."""
    if not JDBC.exists() or shutil.which("java") is None:
        pytest.skip("libpostgresql-jdbc-java or Java is not installed")
    found, released = said(at, "Europe/Berlin"), at.store.released
    for name in ("setDate", "LocalDate", "setTimestamp beside a date"):
        (row,) = at.store.sql(f"SELECT count(*) AS n FROM purchases WHERE {FITTING[name]}").rows()
        assert found[f"extended {name}"] == str(row["n"]), name
    assert at.store.released == released
    for name in ("setTimestamp", "LocalDateTime", "setDate beside a time"):
        assert "has a time zone, and the column has none" in found[f"extended {name}"], name


def fitting(name: str) -> str:
    """Return the condition of a way, in either mode of the driver."""
    return FITTING[name.partition(" ")[2]]
