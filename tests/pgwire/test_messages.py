"""Framing and messages: what is written is read, however it is cut; no bytes do harm."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparseq.pgwire import messages as m
from sparseq.pgwire.server_messages import error
from sparseq.pgwire.wire_errors import WireError

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
INT = st.integers(-(2**31), 2**31 - 1)
FORMAT = st.integers(0, 1)
KIND = st.sampled_from("SP")
DATA = st.binary(max_size=30)


@st.composite
def _bind(draw: st.DrawFn) -> m.Bind:
    values = draw(st.lists(st.none() | DATA, max_size=4))
    count = draw(st.sampled_from(sorted({0, 1, len(values)})))
    formats = draw(st.lists(FORMAT, min_size=count, max_size=count))
    results = draw(st.lists(FORMAT, max_size=3))
    return m.Bind(draw(TEXT), draw(TEXT), tuple(formats), tuple(values), tuple(results))


MESSAGE = st.one_of(
    st.builds(m.SimpleQuery, TEXT),
    st.builds(m.Parse, TEXT, TEXT, st.lists(INT, max_size=4).map(tuple)),
    _bind(),
    st.builds(m.Describe, KIND, TEXT),
    st.builds(m.Close, KIND, TEXT),
    st.builds(m.Execute, TEXT, INT),
    st.builds(m.Sasl, DATA),
    st.builds(m.Copy, st.sampled_from("dcf"), DATA),
    st.builds(m.FunctionCall, DATA),
    st.sampled_from([m.Flush(), m.Sync(), m.Terminate()]),
)
NAME = TEXT.filter(bool)
PACKET = st.one_of(
    st.builds(m.Startup, st.dictionaries(NAME, TEXT, max_size=4), st.integers(0, 9)),
    st.builds(m.Cancel, INT, INT),
    st.sampled_from([m.TlsRequest(), m.GssRequest()]),
)


@given(st.lists(MESSAGE, max_size=6), st.lists(st.integers(0, 400), max_size=6))
def test_messages_are_read_as_written_however_they_are_cut(
    sent: list[m.Message], cuts: list[int]
) -> None:
    data = b"".join(map(m.write_message, sent))
    ends = [*sorted(c for c in cuts if c < len(data)), len(data)]
    frames, start, found = m.Frames(), 0, []
    for end in ends:
        frames.feed(data[start:end])
        found += list(frames.messages())
        start = end
    assert found == sent
    assert len(frames) == 0


@given(PACKET)
def test_packets_are_read_as_written(packet: m.Packet) -> None:
    data = m.write_packet(packet)
    frames = m.Frames()
    frames.feed(data[:-1])
    assert frames.packet() is None
    frames.feed(data[-1:])
    assert frames.packet() == packet


@given(MESSAGE | PACKET, st.data())
def test_mutated_bytes_raise_nothing_but_wire_errors(
    message: m.Message | m.Packet, data: st.DataObject
) -> None:
    packet = isinstance(message, m.Startup | m.Cancel | m.TlsRequest | m.GssRequest)
    raw = bytearray(m.write_packet(message) if packet else m.write_message(message))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    frames = m.Frames()
    frames.feed(bytes(raw))
    with suppress(WireError):
        found = frames.packet() if packet else list(frames.messages())
        assert packet or isinstance(found, list)


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_raise_nothing_but_wire_errors(raw: bytes, start: bool) -> None:
    frames = m.Frames()
    frames.feed(raw)
    try:
        found = frames.packet() if start else list(frames.messages())
    except WireError as failure:
        found = failure.code
    assert found is None or isinstance(found, str | list | m.Packet)


def test_sizes_are_limited_before_the_bytes_come() -> None:
    frames = m.Frames()
    frames.feed(struct.pack("!i", m.MOST_AT_START + 1))
    with pytest.raises(WireError, match="10,001 bytes") as refused:
        frames.packet()
    assert (refused.value.code, refused.value.fatal) == ("54000", True)
    frames = m.Frames()
    frames.most = m.MOST_AFTER
    frames.feed(b"Q" + struct.pack("!i", m.MOST_AFTER))
    assert list(frames.messages()) == []
    frames = m.Frames()
    frames.most = m.MOST_AFTER
    frames.feed(b"Q" + struct.pack("!i", m.MOST_AFTER + 1))
    with pytest.raises(WireError):
        list(frames.messages())


def test_other_protocols_are_told_so() -> None:
    with pytest.raises(WireError, match=r"protocol 2\.0"):
        m.read_packet(struct.pack("!i", 2 << 16))


def test_an_error_has_state_hint_and_position() -> None:
    sent = error(WireError("42601", "no", "yes", position=7, fatal=True))
    assert sent[5:].split(b"\0") == [
        b"SFATAL",
        b"VFATAL",
        b"C42601",
        b"Mno",
        b"Hyes",
        b"P7",
        b"",
        b"",
    ]
