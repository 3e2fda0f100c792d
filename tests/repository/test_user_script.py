"""A user's script runs; `make types` checks its types, with mypy and with pyright."""

from __future__ import annotations

from pathlib import Path

import user_script


def test_it_runs(tmp_path: Path) -> None:
    user_script.main(tmp_path)
