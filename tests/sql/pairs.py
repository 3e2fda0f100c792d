"""The pairs in pairs.sql: a query, and the query that says the same over plain tables."""

from __future__ import annotations

from pathlib import Path

BIG = ", ".join(f"'{k}'" for k in ["book", "日本", *(f"w{i}" for i in range(50))])


def _read_pairs() -> dict[str, tuple[str, str]]:
    text = (Path(__file__).parent / "pairs.sql").read_text()
    pairs = {}
    for block in text.replace("{BIG}", BIG).split("\n\n-- ")[1:]:
        name, _, body = block.partition("\n")
        if not name.startswith("# "):
            assert name not in pairs, f"two pairs are called {name!r}"
            ours, _, theirs = body.partition("-- is\n")
            pairs[name] = (ours.strip().rstrip(";"), (theirs or ours).strip().rstrip(";"))
    return pairs


PAIRS = _read_pairs()
