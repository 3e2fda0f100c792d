"""What `make docs` does to pages: theorems and code are linked, both ways.

In a docstring `docs/theorems/watch.md` becomes a link to that page; on a theorem's page the name of
a public class or function, in backticks, becomes a link to the reference.
"""

from __future__ import annotations

import re
from importlib import import_module
from posixpath import relpath
from typing import Any

import griffe

ROOMS = (
    "sparseq",
    "sparseq.accounting",
    "sparseq.mechanisms",
    "sparseq.series",
    "sparseq.training",
)
_CODE = re.compile(r"(?<![\[`])`([A-Za-z]\w+)(\([^`]*\))?`(?!\])")
_POWER = re.compile(r"(?<=[\w)])\*\*(?=[-(\w])")
_THEOREM = re.compile(r"docs/theorems/([\w-]+)\.md")


def homes() -> dict[str, str]:
    """Return where the public names are defined, by name."""
    found = {}
    for room in ROOMS:
        module = import_module(room)
        for name in module.__all__:
            home = getattr(getattr(module, name, None), "__module__", None)
            if home:
                found[name] = f"{home}.{name}"
    return found


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Link names of code on pages of theorems."""
    if not page.file.src_uri.startswith("theorems/"):
        return markdown
    known = homes()

    def linked(found: re.Match[str]) -> str:
        name, call = found[1], found[2] or ""
        return f"[`{name}{call}`][{known[name]}]" if name in known else found[0]

    return _CODE.sub(linked, markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Link pages of theorems in docstrings."""
    here = page.file.dest_uri.rpartition("/")[0] or "."
    return _THEOREM.sub(
        lambda found: f'<a href="{relpath(f"theorems/{found[1]}.html", here)}">{found[0]}</a>', html
    )


class Examples(griffe.Extension):
    """Show a docstring's `Example:` as the session that it is, and powers as powers."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Give the section the name that the parser knows; `2**-30` begins no bold text."""
        if obj.docstring:
            text = re.sub(r"(?m)^( *)Example:$", r"\1Examples:", obj.docstring.value)
            lines = (
                line if line.lstrip().startswith((">>>", "...")) else _POWER.sub(r"\*\*", line)
                for line in text.splitlines()
            )
            obj.docstring.value = "\n".join(lines)
