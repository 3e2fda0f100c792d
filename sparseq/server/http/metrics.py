"""Counts for Prometheus, in its text format: nothing private, and no times that depend on rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparseq.server.service import Service

TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The media type of the format."""


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        name, kind, about: Its name, "counter" or "gauge", and its description.
        values: Numbers, by the label that tells them apart; "": there is one, without a label.
        label: The name of that label.
    """

    name: str
    kind: str
    about: str
    values: Mapping[str, float] = field(default_factory=dict)
    label: str = ""

    def lines(self) -> list[str]:
        """Return it in the text format.

        Example:
            >>> print(*Metric("up", "gauge", "Whether it works.", {"": 1}).lines(), sep="\\n")
            # HELP up Whether it works.
            # TYPE up gauge
            up 1
        """
        found = [f"# HELP {self.name} {self.about}", f"# TYPE {self.name} {self.kind}"]
        for value, number in self.values.items():
            labels = f'{{{self.label}="{value}"}}' if self.label else ""
            found.append(f"{self.name}{labels} {number:.15g}")
        return found


def gauge(name: str, about: str, value: float) -> Metric:
    """Return a metric with one value, which may rise and fall."""
    return Metric(name, "gauge", about, {"": value})


def counter(name: str, about: str, value: float) -> Metric:
    """Return a metric with one value, which only grows."""
    return Metric(name, "counter", about, {"": value})


async def metrics_of(service: Service, curator: bool) -> list[Metric]:
    """Return the metrics of a server; a curator's have one that is private."""
    connections = service.connections
    found = [
        gauge("sparseq_releases", "Answers that were released.", len(service.latest)),
        gauge("sparseq_waiting", "Questions that wait for their turn.", service.waiting),
        gauge("sparseq_up", "1 if answers can be made durable, else 0.", await service.well()),
        gauge("sparseq_ready", "1 if new questions are accepted, else 0.", service.ready),
        Metric(
            "sparseq_questions_total",
            "counter",
            "Questions since the start, by outcome.",
            dict(sorted(service.counts.items())),
            "outcome",
        ),
        gauge("sparseq_connections", "Open connections.", len(connections)),
        gauge("sparseq_connections_most", "Users' connections at most.", connections.most),
        counter(
            "sparseq_connections_closed_total",
            "Waiting connections that were closed for others.",
            connections.closed,
        ),
    ]
    if service.certificate is not None:
        name = "sparseq_certificate_expiry_timestamp_seconds"
        about = "End of the validity of the certificate, in seconds since 1970."
        found.append(gauge(name, about, service.certificate.expires.timestamp()))
    if curator:
        about = "Times that somebody's rows alone gave another result: private."
        found.append(counter("sparseq_evaluators_differ_total", about, service.differences))
    return found
