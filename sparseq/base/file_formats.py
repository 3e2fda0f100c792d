"""Formats of tables in files, by name."""

from __future__ import annotations

from pathlib import Path

SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".arrow": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
    ".arrows": "arrow",
}
"""Formats that can be written; formats that can only be read are in
`sparseq.load.open_sources.KINDS`.
"""
PACKED = {".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd", ".bz2": "bz2"}
"""Endings of compressed texts."""
ASKED = {".txt": "csv", ".psv": "csv"}
"""Endings of files that are read if they are named; in a folder, such a file may be anything."""


def format_of(path: Path) -> tuple[str, str]:
    """Return the format and the compression in a file's name; "" for unknown ones.

    Example:
        >>> format_of(Path("log.JSONL.gz")), format_of(Path("a.pq")), format_of(Path("a.md"))
        (('jsonl', 'gzip'), ('parquet', ''), ('', ''))
    """
    last, packed = suffix_of(path)
    return SUFFIXES.get(last, ""), packed


def asked_format(path: Path) -> tuple[str, str]:
    """Return the format, as `format_of`, of a file that a user named for reading.

    Example:
        >>> asked_format(Path("export.txt.gz")), asked_format(Path("a.csv"))
        (('csv', 'gzip'), ('csv', ''))
    """
    last, packed = suffix_of(path)
    return (SUFFIXES | ASKED).get(last, ""), packed


def suffix_of(path: Path) -> tuple[str, str]:
    """Return the ending of a file's name in lower case, and its compression.

    Example:
        >>> suffix_of(Path("a.CSV.gz")), suffix_of(Path("a.md"))
        (('.csv', 'gzip'), ('.md', ''))
    """
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    packed = PACKED.get(suffixes[-1], "") if suffixes else ""
    last = suffixes[-2:-1] if packed else suffixes[-1:]
    return last[0] if last else "", packed
