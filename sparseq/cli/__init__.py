"""The command line: thin commands that parse, call and show."""

import os
import sys
import warnings

from sparseq.base.whole_files import keep_private
from sparseq.cli.app import sparseq

__all__ = ["main"]


class WithoutPandas:
    """A finder that hides pandas: PyArrow would import it at the first array, which takes 0.2 s."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Find nothing; see `importlib.abc.MetaPathFinder`."""
        if name == "pandas":
            raise ModuleNotFoundError("no command needs pandas", name=name)


def main() -> None:
    """Run the `sparseq` command, and exit with its code."""
    if not os.environ.get("SPARSEQ_DEBUG"):
        warnings.simplefilter("ignore")  # a library's warning may show a row's value
    keep_private()
    sys.meta_path.insert(0, WithoutPandas)
    sparseq(prog_name="sparseq")
