"""The files that `sparseq train` writes: the model and the log."""

from __future__ import annotations

import io
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from sparseq.base.file_formats import format_of

if TYPE_CHECKING:
    from sparseq.training import TrainingResult

CLOSED = ("logistic", "linear", "softmax", "poisson")


def model_format(out: Path | None, model: str) -> str:
    """Return json, npz or pt, by the file's name."""
    kinds = (".json", ".npz") if model in CLOSED else (".pt",)
    if out is None or out.suffix in kinds:
        return out.suffix[1:] if out is not None else "json"
    raise click.UsageError(f"--output FILE ends in {' or '.join(kinds)} for --model {model}")


def log_format(log: Path | None) -> str:
    """Return csv or parquet, by the file's name."""
    named = format_of(log)[0] if log is not None else "csv"
    if named in ("csv", "parquet"):
        return named
    raise click.UsageError("--log FILE ends in .csv or .parquet")


def model_bytes(model: Any, kind: str) -> str | bytes:
    """Return the model as the file's content."""
    if kind == "json":
        return str(model.to_json())
    content = io.BytesIO()
    (model.save if kind == "pt" else model.save_npz)(content)
    return content.getvalue()


def log_bytes(trained: TrainingResult, kind: str) -> str | bytes:
    """Return the log as the file's content: one row a step."""

    rows = [asdict(step) for step in trained.log]
    kinds = {"step": pa.int64()}
    table = pa.table(
        {name: pa.array([r[name] for r in rows], kinds.get(name, pa.float64())) for name in rows[0]}
    )
    content = io.BytesIO()
    if kind == "csv":
        pyarrow.csv.write_csv(table, content)
        return content.getvalue().decode().rstrip("\n")
    pyarrow.parquet.write_table(table, content)
    return content.getvalue()
