"""Casts between types: total functions, NULL where a value does not fit; overloads use them."""

from __future__ import annotations

from dataclasses import replace

from sparseq.language import types as T
from sparseq.language.expression_tree import Term, call, constant, in_range
from sparseq.language.types import Family, Type


def cast(term: Term, type: Type) -> Term | None:
    """Return a term in another type, NULL where a value does not fit; None if there is no cast.

    CAST and TRY_CAST mean the same here: neither raises an error.
    """
    if term.type == type or (type.is_time and term.type.family is type.family):
        return replace(term, type=replace(term.type, zoned=type.zoned))
    if term.type.family is Family.NULL:
        return constant(None, type)
    template = _cast_template(term.type, type)
    if template is None:
        return None
    result = type
    if term.type.family is Family.INTEGER and type.family is Family.INTEGER:
        low, high = max(term.type.low, type.low), min(term.type.high, type.high)
        result = Type(Family.INTEGER, low, high, stored=type.stored) if low <= high else type
    if term.type.is_time and type.is_time:
        result = replace(type, low=term.type.low, high=term.type.high)
    made = call(f"cast to {type.sql}", template, result, term)
    if term.type.family is Family.TEXT and type.is_time:
        made = in_range(replace(made, type=replace(type, low=-(10**9), high=10**9)))
    return made


_NUMBERS = (Family.INTEGER, Family.DECIMAL, Family.DOUBLE)


def _cast_template(a: Type, b: Type) -> str | None:
    """Return total SQL that converts values of one type to another."""
    if Family.LIST in (a.family, b.family):  # as text it may be very long
        return None
    sure, tried = f"CAST({{0}} AS {b.sql})", f"TRY_CAST({{0}} AS {b.sql})"
    if a.zoned and b.family is Family.TEXT:  # its text would have an offset in the reader's zone
        return None
    if b.family is Family.TEXT:
        return sure
    if a.family is Family.TEXT:
        return tried
    if b.family is Family.BOOLEAN:
        return sure if a.family in _NUMBERS else None
    if b.family in _NUMBERS:
        if a.family is Family.BOOLEAN:
            return sure if b.family is not Family.DECIMAL else tried
        return _number_template(a, b, sure, tried)
    if b.family is Family.TIMESTAMP and a.family is Family.DATE:
        return sure
    if b.family is Family.DATE and a.family is Family.TIMESTAMP:
        return sure
    if b.family is Family.TIME and a.family is Family.TIMESTAMP:
        return sure
    return None


def _number_template(a: Type, b: Type, sure: str, tried: str) -> str | None:
    if a.family not in _NUMBERS:
        return None
    if b.family is Family.DOUBLE:
        return tried if b.stored == "FLOAT" else sure
    if b.family is Family.INTEGER and a.family is Family.INTEGER:
        return sure if a.within(b.low, b.high) else tried
    if b.family is Family.DECIMAL and a.family is not Family.DOUBLE:
        exact = T.as_decimal(a)
        return sure if exact.digits <= b.digits and exact.scale <= b.scale else tried
    return tried
