"""Kinds of tables in files, by name: what is read and what is written goes by one list."""

from __future__ import annotations

from pathlib import Path

SUFFIXES = {
    ".parquet": "parquet", ".pq": "parquet",
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv",
    ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".arrow": "arrow", ".ipc": "arrow", ".feather": "arrow", ".arrows": "arrow",
    ".xlsx": "sheets", ".xlsm": "sheets", ".xlsb": "sheets", ".xls": "sheets", ".ods": "sheets",
    ".sqlite": "sqlite", ".sqlite3": "sqlite", ".db": "sqlite", ".duckdb": "duckdb",
}  # fmt: skip
PACKED = {".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd", ".bz2": "bz2"}
"""How texts are packed."""
ASKED = {".txt": "csv", ".psv": "csv"}
"""What is read where it is named; in a folder it may be anything, and is passed over."""


def format_of(path: Path) -> tuple[str, str]:
    """Return what a file's name says: its format, and how it is packed; "" for nothing known.

    Example:
        >>> format_of(Path("log.JSONL.gz")), format_of(Path("a.pq")), format_of(Path("a.md"))
        (('jsonl', 'gzip'), ('parquet', ''), ('', ''))
    """
    last, packed = _suffix(path)
    return SUFFIXES.get(last, ""), packed


def asked_format(path: Path) -> tuple[str, str]:
    """Return the format, as `format_of`, of a file that somebody has named to be read.

    Example:
        >>> asked_format(Path("export.txt.gz")), asked_format(Path("a.csv"))
        (('csv', 'gzip'), ('csv', ''))
    """
    last, packed = _suffix(path)
    return (SUFFIXES | ASKED).get(last, ""), packed


def _suffix(path: Path) -> tuple[str, str]:
    """Return what a file's name ends in, and how the file is packed."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    packed = PACKED.get(suffixes[-1], "") if suffixes else ""
    last = suffixes[-2:-1] if packed else suffixes[-1:]
    return last[0] if last else "", packed
