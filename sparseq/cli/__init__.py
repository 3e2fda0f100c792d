"""The command line: thin commands that parse, call and show."""

import os
import warnings

from sparseq.cli.app import sparseq

__all__ = ["main"]


def main() -> None:
    """Run the `sparseq` command, and leave with its exit code."""
    if not os.environ.get("SPARSEQ_DEBUG"):
        warnings.simplefilter("ignore")  # a library's warning may show a row's value
    sparseq(prog_name="sparseq")
