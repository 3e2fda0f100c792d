"""Kinds of tables in files, by name: what is read and what is written goes by one list."""

from __future__ import annotations

from pathlib import Path

SUFFIXES = {
    ".parquet": "parquet", ".pq": "parquet",
    ".csv": "csv", ".tsv": "tsv",
    ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".arrow": "arrow", ".ipc": "arrow", ".feather": "arrow", ".arrows": "arrow",
}  # fmt: skip
PACKED = {".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd"}
"""How texts are packed."""


def format_of(path: Path) -> tuple[str, str]:
    """Return what a file's name says: its format, and how it is packed; "" for nothing known.

    Example:
        >>> format_of(Path("log.JSONL.gz")), format_of(Path("a.pq")), format_of(Path("a.txt"))
        (('jsonl', 'gzip'), ('parquet', ''), ('', ''))
    """
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    packed = PACKED.get(suffixes[-1], "") if suffixes else ""
    last = suffixes[-2:-1] if packed else suffixes[-1:]
    return SUFFIXES.get(last[0], "") if last else "", packed
