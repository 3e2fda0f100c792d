"""The fast way to read texts gives the values of the slow one, or nothing."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pyarrow as pa
import pytest
from sampled import one_in

from sparseq.base._duckdb.connection import connect
from sparseq.load.convert import from_text
from sparseq.load.fast_parse import ARROW, TextColumn, iso, unusual, usual
from sparseq.load.read_ahead import ahead

WHOLE = [
    "0",
    "7",
    "-7",
    "007",
    "127",
    "-128",
    "32767",
    "255",
    "2147483647",
    "9223372036854775807",
    "18446744073709551615",
]
ODD = [
    "",
    "-",
    "--1",
    "1-",
    "+7",
    " 7",
    "7 ",
    "7.0",
    "7.",
    "1e5",
    "0x1F",
    "1_000",
    "-0",
    "300",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "９",
]
NUMBERS = [
    "0.1",
    "-0.0",
    "-0",
    ".5",
    "-.5",
    "5.",
    ".",
    "-.",
    "1.2.3",
    "9" * 400,
    "0." + "0" * 400,
    "0.30000000000000004",
    "179769313486231570000000000000000",
    "1" * 19 + ".5",
]
DAYS = [
    "2024-01-05",
    "0001-01-01",
    "9999-12-31",
    "0000-01-01",
    "2024-02-30",
    "2023-02-29",
    "1900-02-29",
    "2024-00-10",
    "2024-1-05-",
    "-001-01-01",
    "20240105",
    "2024-13-01",
    "2024-01-05 10:11:12",
    "2024-01-05T10:11:12",
    "2024-01-05 24:00:00",
    "2024-01-05 23:59:60",
    "2024-01-05 23:60:00",
    "2024-01-05 101112   ",
    "2024-01-05  1:02:03",
    "2024-01-05 10:11",
    "0001-01-01 00:00:00",
    "0000-12-31 23:59:59",
    "9999-12-31 23:59:59",
    "2024-01-05 -1:00:00",
    "2024-01-05T10-11-12",
    "2024-01-05:10:11:12",
    "          ",
    "2024 01 05",
]
TEXTS = [*WHOLE, *ODD, *NUMBERS, *DAYS]


def slow(texts: list[str | None], target: str) -> pa.Array:
    """What `convert.from_text` says."""
    with connect() as con:
        con.register("texts", pa.table({"x": pa.array(texts, pa.string())}))
        table = con.sql(f"SELECT {from_text('x', target)} AS x FROM texts").to_arrow_table()
    return table.column(0).combine_chunks().cast(ARROW[target])


def bits(array: pa.Array) -> list[object]:
    """Values, told apart to the sign of zero."""
    return [repr(v) for v in array.to_pylist()]


def changed(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    return rng.choice(
        (
            text[:at] + rng.choice("0123456789-.: T+e") + text[at:],
            text[:at] + rng.choice("0123456789-.: T") + text[at + 1 :],
            text[:at] + text[at + 1 :],
        )
    )


@pytest.mark.parametrize("target", one_in(2, ARROW))
def test_each_text_alone_is_what_it_is_the_slow_way(target: str) -> None:
    rng = random.Random(5)
    texts = [*TEXTS, *(changed(rng, rng.choice(TEXTS)) for _ in range(3_000))]
    expected = slow(texts, target)
    taken = 0
    for k, text in enumerate(texts):
        found = usual(pa.array([text]), target)
        if found is not None:
            taken += 1
            assert bits(found) == bits(expected.slice(k, 1)), text
    assert taken > 20


@pytest.mark.parametrize("target", ARROW)
def test_a_column_with_missing_ones_wherever_it_begins(target: str) -> None:
    kinds = {"DATE": DAYS[:3], "TIMESTAMP": [*DAYS[:2], DAYS[12]], "DOUBLE": [*WHOLE, *NUMBERS[:4]]}
    texts = [None, *kinds.get(target, WHOLE[:1] + WHOLE[3:5]), None]
    for kind in (pa.string(), pa.large_string()):
        array = pa.array(["x", *texts, "y"], kind).slice(1, len(texts))
        found = usual(array, target)
        assert found is not None
        assert found.type == ARROW[target]
        assert bits(found) == bits(slow(texts, target))


def test_no_texts_at_all() -> None:
    for texts in ([], [None, None]):
        found = usual(pa.array(texts, pa.string()), "BIGINT")
        assert found is not None
        assert found.to_pylist() == texts


def test_an_error_comes_in_its_place_and_what_was_before_it_too() -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("third")

    coming = ahead(items())
    assert [next(coming), next(coming)] == [1, 2]
    with pytest.raises(ValueError, match="third"):
        next(coming)


def test_who_stops_early_leaves_no_thread_behind() -> None:
    closed = []

    def items() -> Iterator[int]:
        try:
            yield from range(10)
        finally:
            closed.append(True)

    some = ahead(items())
    assert next(some) == 0
    some.close()  # type: ignore[attr-defined]
    del some
    assert closed == [True]


@pytest.mark.parametrize(
    ("target", "format"),
    one_in(
        4,
        itertools.product(
            ["DATE", "TIMESTAMP"], ["%d/%m/%Y", "%Y/%m/%d", "%m-%d-%Y", "%d.%m.%Y", "%m/%d/%Y"]
        ),
    ),
)
def test_days_in_a_format_are_what_they_are_the_slow_way(target: str, format: str) -> None:
    sign = format[2]
    texts = [
        "05/01/2024",
        "2024/01/05",
        "31/12/9999",
        "9999/12/31",
        "30/02/2024",
        "0000/01/01",
        "01/01/0000",
        "5/1/2024",
        "05/01/24",
        "05/13/2024",
        "05/0a/2024",
        " 05/01/2024",
        "05/01/2024 ",
        "05 01 2024",
        "0+/01/2024",
        "",
        "12/11/1999",
    ]
    rng = random.Random(3)
    texts = [t.replace("/", sign) for t in texts] + texts[:2]
    texts += [changed(rng, rng.choice(texts[:4])) for _ in range(250)]
    reader = TextColumn(target, format)
    expected = reader._slowly(pa.array(texts))
    fast = 0
    for k, text in enumerate(texts):
        found = iso(pa.array([text]), format)
        fast += found is not None
        assert bits(reader.values(pa.array([text]))) == bits(expected.slice(k, 1)), text
    assert fast > 3
    some = pa.array([None, texts[0], None, texts[1], texts[3]]).slice(1)
    assert bits(reader.values(some)) == bits(reader._slowly(some))


@pytest.mark.parametrize("target", ARROW)
def test_a_few_that_are_written_otherwise(target: str) -> None:
    usual_one = {"DATE": DAYS[0], "TIMESTAMP": DAYS[12], "DOUBLE": "1.5"}.get(target, "7")
    for kind in (pa.string(), pa.large_string()):
        texts: list[str | None] = [usual_one, None] * 200
        for k, odd in enumerate([*ODD, *NUMBERS[:8]]):
            texts[7 * k + 3] = odd
        array = pa.array(["x", *texts, "y"], kind).slice(1, len(texts))
        assert 0 < unusual(array, target).sum() < 40
        assert bits(TextColumn(target, "").values(array)) == bits(slow(texts, target))
