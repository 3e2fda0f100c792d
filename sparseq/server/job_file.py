"""The kinds of jobs, and the file of jobs: a table of TOML for each.

    [buyers]
    kind = "monitor"
    queries = ["daily_buyers.sql"]
    from = 1997-01-01
    follow = "incoming"
    output = "buyers.parquet"

    [nightly]
    kind = "backup"
    folder = "/backups"
    keep = 7

Paths are relative to the file's folder.
"""

from __future__ import annotations

import datetime as dt
import tomllib
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from sparseq.base.errors import ParameterError, did_you_mean
from sparseq.server.job import Job
from sparseq.server.job_kinds import BackupJob, MonitorJob, ReplayJob, check_name

KINDS = {"monitor": MonitorJob, "replay": ReplayJob, "backup": BackupJob}
_SPELT = {"start": "from", "last": "to"}


def read_jobs(path: Path) -> list[Job]:
    """Read a file of jobs.

    Raises:
        ParameterError: It can't be read, or has an unknown entry.
    """
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ParameterError(f"can't read {path}: {why}", "write it in TOML") from None
    return [_job(name, given, path.parent.resolve()) for name, given in content.items()]


def _job(name: str, given: Any, folder: Path) -> Job:
    if not isinstance(given, dict) or given.get("kind") not in KINDS:
        raise ParameterError(f"job {name!r} has no kind", f"kind = one of {', '.join(KINDS)}")
    check_name(name)
    made = KINDS[given["kind"]]
    known = {_SPELT.get(f.name, f.name): f for f in fields(made) if f.name not in ("name", "kind")}
    values = {}
    for key in (key for key in given if key != "kind"):
        if key not in known:
            raise ParameterError(f"job {name!r}: there is no {key!r}", did_you_mean(key, known))
        values[known[key].name] = _value(name, key, given[key], str(known[key].type), folder)
    missing = [key for key, f in known.items() if f.default is MISSING and key not in given]
    if missing:
        raise ParameterError(f"job {name!r} needs {', '.join(missing)}")
    job: Job = made(name, **values)
    return job


def _value(job: str, key: str, value: Any, kind: str, folder: Path) -> Any:
    """Return a value with the type that a job needs.

    Raises:
        ParameterError: It has another type.
    """
    texts = value if kind.startswith("list") else [value]
    if "Path" in kind and isinstance(texts, list) and all(isinstance(t, str) for t in texts):
        paths = [folder / text for text in texts]
        return paths if kind.startswith("list") else paths[0]
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "str" and isinstance(value, str | dt.date):
        return str(value)
    number = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    if number and kind in ("int", "float") and (kind == "float" or isinstance(value, int)):
        return value
    raise ParameterError(f"job {job!r}: {key} can't be {value!r}")
