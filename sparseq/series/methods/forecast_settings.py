"""Settings of a series with forecasts, and the result of one of its ticks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.accounting._numbers import count, in_range
from sparseq.answers.answer import Answer
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.ledger.purposes import Purpose
from sparseq.mechanisms.toeplitz_counter import MAX_HORIZON
from sparseq.question.plan import Query
from sparseq.released.outputs import Estimate, Measurements, Outputs
from sparseq.released.render import key_columns
from sparseq.series.methods.departure_mean import Form

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ForecastTick:
    """One tick of a series.

    Attributes:
        number: The tick.
        active: The answer about the users who have not left the series.
        corrected: The estimate about everybody, (d,).
        forecast: The part that was added to the answer, (d,).
        noise_error: Bound on the noise in `corrected`, all coordinates at once, at the answer's
            confidence.
        forecast_error: Estimate, not a bound, of the error of the forecast, (d,); NaN if too few
            ticks have been released to estimate it.
        error: How far `corrected` may be from the sums over everybody, (d,): both errors, under
            the assumption that `sparseq.series.methods.corrector` names.
    """

    number: int
    active: Answer
    corrected: Floats
    forecast: Floats
    noise_error: float
    forecast_error: Floats
    error: Floats

    def arrow(self) -> pa.Table:
        """Return the active answer with four more columns."""
        rows = len(self.corrected)
        more = {
            "corrected": pa.array(self.corrected),
            "corrected_error": pa.array(self.error),
            "noise_error": pa.array([self.noise_error] * rows),
            "forecast_error": pa.array(self.forecast_error, mask=np.isnan(self.forecast_error)),
        }
        table = self.active.arrow()
        for name, column in more.items():
            table = table.append_column(name, column)
        return table


def new_settings(
    series: str,
    given: Mapping[str, Any],
    others: Iterable[Mapping[str, Any]],
    purpose: Purpose | None = None,
) -> dict[str, Any]:
    """Return the settings of a new series.

    Args:
        series: Name of the series.
        given: Settings that the caller gave; None for the others.
        others: Settings of the other series that share its reserve.
        purpose: Purpose with the series' part, which sets some of them.

    Raises:
        ParameterError: A number is missing or out of range, or the others use up the reserve.
    """
    if purpose is not None:
        given = _purpose_settings(series, given, purpose)
    if given["ticks"] is None:
        raise ParameterError(f"there is no series {series!r} yet", "to begin one, give ticks")
    settings: dict[str, Any] = {
        "ticks": count("ticks", given["ticks"], 1, MAX_HORIZON),
        "form": str(Form.of(given["form"] or "mean")),
        "share": 1.0 if given["share"] is None else given["share"],
        "slices": count("slices", given["slices"] or 1, 1, 1000),
        "cap": 1.0 if given["cap"] is None else given["cap"],
    }
    in_range("share", settings["share"], 0.0, 1.0, open_low=True)
    in_range("cap", settings["cap"], 0.0, 1.0, open_low=True)
    shares = [s["share"] for s in others]
    if sum(map(Fraction, shares), Fraction(settings["share"])) > 1:
        raise ParameterError(
            f"other series have {sum(shares):g} of the reserve; a share of "
            f"{settings['share']:g} is more than is left",
            "give every series a share when it is begun",
        )
    return settings


def _purpose_settings(series: str, given: Mapping[str, Any], purpose: Purpose) -> dict[str, Any]:
    """Return the settings of a series from the purpose with its part.

    Raises:
        ParameterError: The caller gave another value.
    """
    fixed = {"ticks": purpose.ticks, "cap": purpose.cap}
    asked = {name: given[name] for name in fixed if given[name] is not None}
    check_same(series, fixed, asked)
    return {**given, **fixed}


def check_same(series: str, settings: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Check the caller's settings of a series against those that it was begun with.

    Raises:
        ParameterError: A setting differs.
    """
    for name, value in given.items():
        mine = str(Form.of(value)) if name == "form" else value
        if mine != settings[name]:
            raise ParameterError(
                f"{series!r} was begun with {name} {settings[name]}, not {value}",
                "leave it out, or begin another series",
            )


def column_of(query: Query) -> str:
    """Return the column of the single number that a series has for each group."""
    outputs = query.outputs
    if isinstance(outputs, Outputs) and outputs.least is not None:
        raise QueryRefused(
            "this store counts people with every number, to hide numbers about few people; a "
            "series with forecasts or a strategy has one number per group",
            "take a plain series",
        )
    simple = isinstance(outputs, Outputs) and replace(
        outputs.of_every_group(), possible=()
    ) == Outputs(outputs.columns, histogram=outputs.histogram)
    if len(query.measures) == 1 and simple:
        probe = np.arange(1.0, query.coordinates + 1)
        noised = Measurements(
            [probe.reshape(query.groups, -1)], [0.0], key_columns(query.domains), query.groups
        )
        columns = [(o.name, o.node(noised)) for o in outputs.columns]
        numbers = [(name, node) for name, node in columns if isinstance(node, Estimate)]
        if len(numbers) == 1:
            name, node = numbers[0]
            expected = noised.measures[0][:, 0]
            if np.array_equal(np.broadcast_to(node.value, query.groups), expected):
                return str(name)
    raise QueryRefused(
        "a series with forecasts has one COUNT or SUM, with or without groups",
        "write SELECT key, count(*) AS n … GROUP BY key; for an average, ask for sum and count",
    )
