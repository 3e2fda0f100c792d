"""The file of a picture: a page or an image, by its name."""

from __future__ import annotations

from pathlib import Path

from sparseq.base.errors import ParameterError
from sparseq.cli.output import Output
from sparseq.pictures.figure import Sheet
from sparseq.pictures.image import check_image, image
from sparseq.pictures.page import html_page

KINDS = (".html", ".png", ".svg")


def check_picture(path: Path, option: str = "--plot") -> str:
    """Return html, png or svg, by the file's name.

    Raises:
        ParameterError: No picture of this name can be made.
    """
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise ParameterError(
            f"{option} {str(path)!r} has a suffix that is not known", ", ".join(KINDS)
        )
    if not path.parent.is_dir():
        raise ParameterError(
            f"can't write {str(path)!r}: there is no folder {str(path.parent)!r}", "make it first"
        )
    if kind != ".html":
        check_image()
    return kind[1:]


def rendered(sheet: Sheet, kind: str) -> str | bytes:
    """Return the picture as the content of a file."""
    return html_page(sheet) if kind == "html" else image(sheet, kind)


def write_picture(sheet: Sheet, path: Path) -> None:
    """Write a picture; the file appears whole or not at all."""
    kind = check_picture(path)
    with Output(path, kind) as output:
        output.write(rendered(sheet, kind))
