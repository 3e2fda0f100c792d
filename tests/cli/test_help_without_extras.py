"""Every command shows its help where no extra is installed."""

from __future__ import annotations

import subprocess
import sys

EXTRAS = [
    "adbc_driver_manager",
    "adbc_driver_postgresql",
    "deltalake",
    "fastexcel",
    "matplotlib",
    "numba",
    "obstore",
    "pandas",
    "polars",
    "pyspark",
    "starlette",
    "torch",
    "uvicorn",
    "xlsxwriter",
]
HELP = """
import click
from click.testing import CliRunner
from sparseq.cli.app import sparseq

def shown(command, names):
    result = CliRunner().invoke(sparseq, [*names, "--help"])
    assert result.exit_code == 0 and "Usage" in result.output, (names, result.output)
    print(*names)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            shown(command.get_command(context, name), [*names, name])

shown(sparseq, [])
"""
HIDDEN = f"""
import importlib.util, sys
EXTRAS = {EXTRAS!r}

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, of=None: None if name in EXTRAS else found(name, of)
"""


def test_help_needs_no_extra() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN + HELP], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    shown = done.stdout.splitlines()
    assert {"curator", "curator train", "train", "serve", "sql", "monitor"} <= set(shown)
