"""A line of text is read by itself: what stands before and after it changes nothing."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparseq.load import text_lines as module
from sparseq.load.text_lines import Lines, fields_of, fit, is_regular, unify, unquote
from sparseq.load.text_streams import UNREADABLE

PIECES = [
    b'"',
    b'""',
    b",",
    b"a",
    b"7",
    b" ",
    b"\r",
    b"\0",
    b"\xff",
    b"\xfd",
    b"\xef\xbb\xbf",
    b"\xc3\xa4",
    b"\xc3",
    b"\xe2\x80",
    b"|",
    b"x" * 40,
]
LINE = st.lists(st.sampled_from(PIECES), max_size=9).map(b"".join)
MANY = st.lists(LINE, min_size=1, max_size=12)


def values(chunk: bytes) -> list[list[bytes]]:
    """Return the values of whole lines, as the passes over a whole chunk make them."""
    spelled = [(b"\xff", b","), (b"\xfe", b"\r"), (b"\xfd", b"\n")]
    found = []
    for line in unquote(unify(chunk), b",").split(b"\n")[:-1]:
        fields = line.split(b",")
        for mark, written in spelled:
            fields = [f.replace(mark, written) for f in fields]
        found.append(fields)
    return found


def alone(line: bytes) -> list[bytes]:
    """Return the values of one line by the definition."""
    whole = unify(line + b"\n").removesuffix(b"\n")
    return [f.replace(b"\xfe", b"\r") for f in fields_of(whole, b",")]


@given(MANY)
@example([b'""', b'"', b'a"b', b'"a""b"', b'"a,b",c'])
@example([b'"', b'"'])
def test_the_passes_over_all_lines_are_the_definition_of_each(lines: list[bytes]) -> None:
    assert values(b"".join(line + b"\n" for line in lines)) == [alone(line) for line in lines]


@given(MANY, st.integers(1, 60), st.booleans())
def test_chunks_are_whole_lines_wherever_reading_stops(
    lines: list[bytes], size: int, ended: bool
) -> None:
    text = b"\n".join(lines) + b"\n" * ended
    chunks = list(Lines(io.BytesIO(text), size=size))
    assert all(chunk.endswith(b"\n") for chunk in chunks)
    assert b"".join(chunks).split(b"\n")[: len(lines)] == (text + b"\n").split(b"\n")[: len(lines)]


@given(st.lists(st.sampled_from([1, 5, 7, 8, 9, 30]), max_size=12), st.integers(1, 40))
def test_a_line_that_is_too_long_goes_and_no_other(lengths: list[int], size: int) -> None:
    before, module.LONGEST_LINE = module.LONGEST_LINE, 8
    try:
        text = b"".join(b"x" * n + b"\n" for n in lengths)
        lines = Lines(io.BytesIO(text), size=size)
        kept = [len(line) for line in b"".join(lines).split(b"\n")[:-1]]
    finally:
        module.LONGEST_LINE = before
    assert kept == [n for n in lengths if n <= 8]
    assert lines.too_long == len(lengths) - len(kept)


def test_lines_get_as_many_values_as_there_are_columns() -> None:
    chunk, left_out, short = fit(b"a,b,c\n\na\na,b,c,,\na,b,c,d\n,,\n", b",", 3)
    assert chunk == b"a,b,c\n\na,,\na,b,c\n\n,,\n"
    assert (left_out, short) == (1, 1)


@pytest.mark.parametrize("size", [4, 1 << 20])
def test_values_of_several_lines_where_they_are_declared(size: int) -> None:
    text = b'1,"a\nb",x\r\n2,"c ""d""\n\n,e",y\n3,z,\n'
    chunk = b"".join(Lines(io.BytesIO(text), multiline=True, size=size))
    rows = [
        [f.replace(b"\xff", b",").replace(b"\xfd", b"\n") for f in line.split(b",")]
        for line in unquote(unify(chunk, multiline=True), b",").split(b"\n")[:-1]
    ]
    assert rows == [[b"1", b"a\nb", b"x"], [b"2", b'c "d"\n\n,e', b"y"], [b"3", b"z", b""]]


def written(chunk: bytes, separator: str = ",") -> list[list[str | None]] | None:
    """Return the values that a reader of such files makes of regular lines; None of others."""
    if not is_regular(chunk, separator.encode()):
        return None
    text = io.StringIO(chunk.decode())
    return [row for row in csv.reader(text, delimiter=separator, strict=True) if row]


@given(MANY)
@example([b'"a","b,""c"', b'"",x'])
def test_every_reader_reads_regular_lines_alike(lines: list[bytes]) -> None:
    chunk = unify(b"".join(line + b"\n" for line in lines))
    chunk = chunk.replace(b"\xfe", b"").replace(UNREADABLE, b"?")
    found = written(chunk)
    if found is not None:
        alone = [[f.decode() for f in fields_of(line, b",")] for line in chunk.split(b"\n") if line]
        assert found == alone
    assert (found is None) <= (b'"' in chunk)
