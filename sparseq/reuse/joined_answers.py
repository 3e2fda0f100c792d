"""Answers joined from several releases, and the rest of a question that must still be asked.

Groups of a question that follow from different releases are joined: each keeps its interval, and
the answer's beta is the sum of the releases' betas (the union of possible failures). So only a few
ordinary releases can be joined. But if most groups of a question are known, the rest is asked with
a small beta and the noise of the known groups. So a daily look at a series is charged for one day.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sparseq.accounting.pilots.pilot_interval import IntervalKind
from sparseq.answers.answer_facts import Facts
from sparseq.language.interval_arithmetic import Floats
from sparseq.question.plan import Options, Query
from sparseq.released.outputs import Intervals, Measurements, Outputs
from sparseq.released.render import key_columns
from sparseq.reuse.derived_answers import EXTRA, DerivedAnswer
from sparseq.reuse.grids import Coverage

MOST_BETA = 1.2
"""The maximum share of a question's beta for a joined answer."""
MOST_WIDTH = 1.25
"""The maximum width of a known group, in units of the expected width of a new answer."""
_KINDS = ("", *(str(kind) for kind in IntervalKind), "capped", "active")


@dataclass(frozen=True)
class Piece:
    """Some groups of a question, from one release."""

    release: int
    groups: tuple[int, ...]
    found: DerivedAnswer
    facts: Facts


Derive = Callable[[int, Coverage], Piece | None]
"""Returns the piece of a question that a release covers; None: it needs more than beta."""


def pieces_of(
    groups: int, candidates: Iterable[tuple[int, Coverage]], derive: Derive, beta: float
) -> list[Piece]:
    """Return pieces that cover as many groups as possible: the largest first, then the latest.

    Args:
        groups: The groups of the question.
        candidates: Releases, the latest first, and the parts of the question that they cover.
        derive: Makes a piece.
        beta: The maximum for all pieces together.
    """
    left, pieces = set(range(groups)), list[Piece]()
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
            pieces.append(piece)
            left.difference_update(piece.groups)
    return pieces


def joined(query: Query, pieces: Sequence[Piece]) -> DerivedAnswer:
    """Return the answer to a question whose groups are all in the pieces.

    The pieces have the same measures, in the same order.
    """
    of = [piece.found.noised for piece in pieces]
    groups = [piece.groups for piece in pieces]

    def scattered(parts: Sequence[Sequence[Floats]]) -> list[Floats]:
        return [_scatter(query.groups, groups, some) for some in zip(*parts, strict=True)]

    bounds = [max(some) for some in zip(*(noised.bounds for noised in of), strict=True)]
    weighted = [noised.weighted for noised in of if noised.weighted is not None]
    intervals = None
    if len(weighted) == len(of):
        intervals = Intervals(
            scattered([k.lows for k in weighted]),
            scattered([k.highs for k in weighted]),
            scattered([k.noised for k in weighted]),
            [max(some) for some in zip(*(k.sigmas for k in weighted), strict=True)],
            scattered([k.missing for k in weighted]),
            [max(some) for some in zip(*(k.z for k in weighted), strict=True)],
        )
    noised = Measurements(
        scattered([n.measures for n in of]),
        bounds,
        key_columns(query.domains),
        query.groups,
        intervals,
    )
    ends = [noised.ends(i) for i in range(len(query.measures))]
    return DerivedAnswer(
        noised,
        sum(piece.found.beta for piece in pieces),
        tuple(map(float, bounds)),
        tuple(max(some) for some in zip(*(p.found.sigmas for p in pieces), strict=True)),
        tuple(float((high - low).mean()) / 2 for low, high in ends),
    )


def _scatter(groups: int, at: Sequence[Sequence[int]], parts: Sequence[Floats]) -> Floats:
    whole = np.zeros((groups, parts[0].shape[1]))
    for places, part in zip(at, parts, strict=True):
        whole[list(places)] = part
    return whole


def facts_of(pieces: Sequence[Piece]) -> Facts:
    """Return the facts of the latest release, with the least certain interval of all pieces."""
    latest = max(pieces, key=lambda piece: piece.release).facts
    kinds = [piece.facts.interval for piece in pieces]
    parts = tuple(sorted({piece.release for piece in pieces}))
    return replace(latest, interval=max(kinds, key=_KINDS.index), parts=parts)


@dataclass(frozen=True)
class Rest:
    """The part of a question that must still be asked, and its options."""

    query: Query
    options: Options


def rest_of(query: Query, pieces: Sequence[Piece], beta: float) -> Rest | None:
    """Return the part to ask if the pieces have most groups; None: ask the whole question.

    The part consists of all groups of some values of one key. It gets the noise of the other
    groups or, in a weighted answer, the usual price.
    """
    from sparseq.sql.key_domains import narrow

    if len(query.measures) != 1 or not isinstance(query.outputs, Outputs) or not pieces:
        return None
    spent = sum(piece.found.beta for piece in pieces)
    if spent + beta * EXTRA > MOST_BETA * beta:
        return None
    have = np.zeros(query.groups, np.bool_)
    for piece in pieces:
        have[list(piece.groups)] = True
    if have.all():  # wider than a new answer: the whole question is asked
        return None
    whole = have.reshape([len(domain.values) for domain in query.domains])
    for axis, domain in enumerate(query.domains):
        others = tuple(i for i in range(whole.ndim) if i != axis)
        answered: list[bool] = np.all(whole, axis=others).tolist()
        if 2 * sum(answered) < len(answered):
            continue
        values = [v for v, there in zip(domain.values, answered, strict=True) if not there]
        less = narrow(domain, values)
        if less is None or query.outputs.histogram is not None:
            continue
        domains = (*query.domains[:axis], less, *query.domains[axis + 1 :])
        listed = ", ".join(map(str, values))
        text = f"{query.text.rstrip().rstrip(';')} /* of {domain.name} only {listed} */"
        # the noise of a weighted part follows from its own scale, at the usual price
        weighted = any(piece.found.noised.weighted is not None for piece in pieces)
        sigma = None if weighted else min(piece.found.sigmas[0] for piece in pieces)
        options = Options(sigma=sigma, confidence=1 - beta * EXTRA)
        asked = replace(query, text=text, domains=domains, options=Options())
        return Rest(asked, options)
    return None
