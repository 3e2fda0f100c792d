"""Answers that are joined from several releases, and what is left to ask for one.

Groups of a question that follow from different releases stand side by side: each keeps its
interval, and the answer's beta is the sum of the releases' (the union of what can go wrong). So few
ordinary releases can be joined; but what is left of a question whose other groups are known is
asked for with a small beta of its own, and its noise that of the known groups. A series that is
looked at each morning is paid for one day at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sparseq.accounting.pilots.pilot_interval import IntervalKind
from sparseq.released.outputs import Floats, Intervals, Measurements, Outputs
from sparseq.released.render import key_columns
from sparseq.reuse.answer_views import Coverage
from sparseq.reuse.derived_answer import EXTRA, DerivedAnswer
from sparseq.sql.plan import Options, Query
from sparseq.store.answer_facts import Facts

MOST_BETA = 1.2
"""Of a question's beta: what that of an answer that is joined may be."""
MOST_WIDTH = 1.25
"""Of the width that asking is expected to give: what the known groups may have of one that is."""
_KINDS = ("", *(str(kind) for kind in IntervalKind), "capped", "active")


@dataclass(frozen=True)
class Piece:
    """Some groups of a question, from one release."""

    release: int
    groups: tuple[int, ...]
    found: DerivedAnswer
    facts: Facts


Derive = Callable[[int, Coverage], Piece | None]
"""A release, and what it covers of a question: the piece, if it can be told with enough beta."""


def pieces_of(
    groups: int, candidates: Iterable[tuple[int, Coverage]], derive: Derive, beta: float
) -> list[Piece]:
    """Return pieces that cover as many groups as they can: the largest first, then the latest.

    Args:
        groups: Of the question.
        candidates: Releases, the latest first, and what they cover of it.
        derive: Makes a piece.
        beta: The most that all pieces may have together.
    """
    left, found = set(range(groups)), list[Piece]()
    waiting = [(release, covered) for release, covered in candidates if covered.groups]
    while left and waiting:
        sizes = [len(left.intersection(covered.groups)) for _, covered in waiting]
        best = int(np.argmax(sizes))
        if not sizes[best]:
            break
        release, covered = waiting.pop(best)
        piece = derive(release, covered.only(left))
        if piece is not None and piece.found.beta <= beta * (1 + 1e-9):
            beta -= piece.found.beta
            found.append(piece)
            left.difference_update(piece.groups)
    return found


def joined(query: Query, pieces: Sequence[Piece]) -> DerivedAnswer:
    """Return the answer to a question whose groups are all in one of the pieces.

    The pieces' own are of the same measures, in their order.
    """
    of = [piece.found.noised for piece in pieces]
    groups = [piece.groups for piece in pieces]

    def scattered(parts: Sequence[Sequence[Floats]]) -> list[Floats]:
        return [_scattered(query.groups, groups, some) for some in zip(*parts, strict=True)]

    bounds = [max(some) for some in zip(*(noised.bounds for noised in of), strict=True)]
    known = [noised.weighted for noised in of if noised.weighted is not None]
    intervals = None
    if len(known) == len(of):
        intervals = Intervals(
            scattered([k.lows for k in known]), scattered([k.highs for k in known]),
            scattered([k.noised for k in known]),
            [max(some) for some in zip(*(k.sigmas for k in known), strict=True)],
            scattered([k.missing for k in known]),
            [max(some) for some in zip(*(k.z for k in known), strict=True)],
        )  # fmt: skip
    noised = Measurements(
        scattered([n.measures for n in of]), bounds, key_columns(query.domains), query.groups,
        intervals,
    )  # fmt: skip
    ends = [noised.ends(i) for i in range(len(query.measures))]
    return DerivedAnswer(
        noised,
        sum(piece.found.beta for piece in pieces),
        tuple(map(float, bounds)),
        tuple(max(some) for some in zip(*(p.found.sigmas for p in pieces), strict=True)),
        tuple(float((high - low).mean()) / 2 for low, high in ends),
    )


def _scattered(groups: int, at: Sequence[Sequence[int]], parts: Sequence[Floats]) -> Floats:
    whole = np.zeros((groups, parts[0].shape[1]))
    for places, part in zip(at, parts, strict=True):
        whole[list(places)] = part
    return whole


def facts_of(pieces: Sequence[Piece]) -> Facts:
    """Return facts of the latest release, with the least sure interval of all pieces."""
    latest = max(pieces, key=lambda piece: piece.release).facts
    kinds = [piece.facts.interval for piece in pieces]
    parts = tuple(sorted({piece.release for piece in pieces}))
    return replace(latest, interval=max(kinds, key=_KINDS.index), parts=parts)


@dataclass(frozen=True)
class Rest:
    """What is left to ask for a question, and how."""

    query: Query
    options: Options


def rest_of(query: Query, pieces: Sequence[Piece], beta: float) -> Rest | None:
    """Return what is left to ask where the pieces have most groups of a question; None: all of it.

    Left are all groups of some values of one key. They are asked with the noise of the others.
    """
    from sparseq.sql.domains import narrowed

    if len(query.measures) != 1 or not isinstance(query.outputs, Outputs) or not pieces:
        return None
    spent = sum(piece.found.beta for piece in pieces)
    if spent + beta * EXTRA > MOST_BETA * beta:
        return None
    have = np.zeros(query.groups, np.bool_)
    for piece in pieces:
        have[list(piece.groups)] = True
    if have.all():  # wider than asking is: all of it is asked anew
        return None
    whole = have.reshape([len(domain.values) for domain in query.domains])
    for axis, domain in enumerate(query.domains):
        others = tuple(i for i in range(whole.ndim) if i != axis)
        known: list[bool] = np.all(whole, axis=others).tolist()
        if 2 * sum(known) < len(known):
            continue
        values = [v for v, there in zip(domain.values, known, strict=True) if not there]
        less = narrowed(domain, values)
        if less is None or query.outputs.histogram is not None:
            continue
        domains = (*query.domains[:axis], less, *query.domains[axis + 1 :])
        listed = ", ".join(map(str, values))
        text = f"{query.text.rstrip().rstrip(';')} /* of {domain.name} only {listed} */"
        sigma = min(piece.found.sigmas[0] for piece in pieces)
        options = Options(sigma=sigma, confidence=1 - beta * EXTRA)
        asked = replace(query, text=text, domains=domains, options=Options())
        return Rest(asked, options)
    return None
