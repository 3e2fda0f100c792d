"""One word, one meaning; names of known words; short sentences that nobody stumbles over."""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click

from sparseq.cli.app import sparseq as command_line

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "sparseq"
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text("utf-8")
TERMS = [term.lower() for term in re.findall(r"\*\*([^*]+)\*\*", GLOSSARY)]
PUBLIC = [
    "sparseq",
    *(f"sparseq.{p}" for p in ("accounting", "mechanisms", "networks.sgd", "series", "training")),
]
PLAIN = (
    "accept add all answer anyway averaging backup batch below checks column compare complete "
    "config convert create csv data dates demo derive dry epochs error events every examples "
    "explain family file follow forget format from history ingest last late lateness least log "
    "loss momentum most memory name noise output over param parameter patience plot public quiet "
    "rate recover refused replay report resume result seed settle shell show skip spend summary "
    "table time to top train type upgrade weighted yes sum id in use modes once orders queries "
    "accounting aggregation keep monitor more less private sparseq sql start stop text training "
    "people estimate feature for engine arrival inbox version charged again schema print serve "
    "revoke expires pg http tls url cert no list audit verify mcp fresh doctor sweep deep since "
    "picks statement timeout relocate at useful find rename drop title any receipt proof root "
    "really copy read dashboard refresh morning on"
)
"""Words that mean here what they mean everywhere."""
MATHS = (
    "above closed counter curve entropy form gaussian gd laplace os pure quantiles randomized "
    "ranks response sampled seeded sgd sparse threshold toeplitz tree vector"
)
"""Words of mathematics and of machines: names of mechanisms and distributions."""
WORDS = frozenset(f"{PLAIN} {MATHS}".split())


def parts(name: str) -> list[str]:
    """The words of a name: `ToeplitzCounter`, `norm_budget`, `--request-id`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return re.findall(r"[a-z0-9]+", spaced.lower())


KNOWN = {word for term in TERMS for word in parts(term)}


def stem(word: str) -> set[str]:
    return {word, word.removesuffix("s"), word.removesuffix("es")}


def command_words(command: click.Command = command_line, first: bool = True) -> set[str]:
    words = set() if first else set(parts(command.name or ""))
    for param in command.params:
        if isinstance(param, click.Option) and not param.hidden:
            words |= {w for o in param.opts if o.startswith("--") for w in parts(o)}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            words |= command_words(inner, False)
    return words


def public_words() -> set[str]:
    found = set()
    for module in map(importlib.import_module, PUBLIC):
        classes = {n for n in module.__all__ if isinstance(getattr(module, n), type)}
        found |= {word for name in classes for word in parts(name)}
    return found


@cache
def trees() -> dict[Path, ast.Module]:
    return {p: ast.parse(p.read_text("utf-8")) for p in sorted(PACKAGE.rglob("*.py"))}


def test_names_for_users_are_made_of_known_words() -> None:
    words = command_words() | public_words()
    assert {w for w in words if not stem(w) & (KNOWN | WORDS)} == set()


def test_no_known_word_is_listed_for_nothing() -> None:
    used = {s for word in command_words() | public_words() for s in stem(word)}
    assert WORDS - used == set()
    assert set() == WORDS & KNOWN
    assert len(f"{PLAIN} {MATHS}".split()) == len(WORDS)


def test_each_term_of_the_glossary_is_used_in_names() -> None:
    names: set[str] = set()
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names |= set(parts(node.name))
            elif isinstance(node, ast.arg):
                names |= set(parts(node.arg))
            elif isinstance(node, ast.Attribute):
                names |= set(parts(node.attr))
    used = {s for word in names | command_words() for s in stem(word)}
    assert {word for word in KNOWN if not stem(word) & used} == set()


def test_a_term_is_explained_once() -> None:
    assert [term for term, n in Counter(TERMS).items() if n > 1] == []


def test_no_class_is_named_by_a_participle() -> None:
    classes = {n.name for t in trees().values() for n in ast.walk(t) if isinstance(n, ast.ClassDef)}
    assert {name for name in classes if name.endswith("ed")} == {"QueryRefused"}


def test_a_class_name_has_one_meaning() -> None:
    where: dict[str, list[str]] = {}
    for path, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where.setdefault(node.name, []).append(path.name)
    several = {name for name, files in where.items() if len(files) > 1}
    fixed = {"DataError"}  # by PEP 249, in sparseq.dbapi
    assert several - fixed <= {"Table"}, "those of a store, and those that are shown"


def test_a_module_says_first_what_it_is() -> None:
    """A noun or a verb, as in other packages; no clause that begins with What, Where or Who."""
    clauses = ("what", "where", "who", "whoever", "which", "whether", "how", "why", "when", "whose")
    found = [
        str(path)
        for path, tree in trees().items()
        if (words := (ast.get_docstring(tree) or "").split())
        and words[0].lower().rstrip(",:") in clauses
    ]
    assert found == []


# -- sentences: what people read who look for help -------------------------------------------------

MOST_WORDS = 30
STUMBLED = (
    "thin out as those that",
    "systems charge each query its worst",
    "noise is that of a short one",
    "has little left counts for less; nobody",
    "lies in all 2",
    "too few people to say",
    "take a precision instead of",
    "a precision instead of taking the default",
    "look before you ask",
    "in any spelling",
    "is itself a fact about people",
    "6 a.m.",
    "which people who come every day make cheap",
    "nobody but its curator",
    "what tools look around for",
    "with an outcome of its own",
    "before any of it",
    "claims the first only",
    "no float decides who",
    "does not see a few people",
    "who is out is private",
    "exact facts, loudly",
    "limit: **not always**",
    "a disk that others are using",
    "wholly in every question",
    "people with very much data are few",
    "would not show: where that can be",
)
"""Phrases that readers stumbled over; what replaces them is in the texts now."""


def how_tos() -> list[Path]:
    """README, and the pages of the site's first parts, up to the reference."""
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").split("nav:")[1].split("- Reference:")[0]
    pages = re.findall(r": ([\w-]+\.md)$", nav, re.MULTILINE)
    return [ROOT / "README.md", *(ROOT / "docs" / p for p in pages)]


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs and items of a page; no code, no tables, no headings."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    for block in re.split(r"\n\s*\n", text):
        if not block.startswith(("    ", "|", "#", "!", "<")):
            yield from re.split(r"(?:^|\n)\s*(?:[-*]|\d+\.) ", block)


def too_long(text: str, ends: str = ".!?") -> list[str]:
    """Return the sentences of more than `MOST_WORDS` words; what is in backticks is one word."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "X", text)).replace("**", "")
    sentences = re.split(rf"(?<=[{ends}])[\")]*\s+(?=\S)", plain)
    return [s for s in sentences if sum(bool(re.search(r"\w", w)) for w in s.split()) > MOST_WORDS]


def spoken(node: ast.AST) -> str:
    """The text of an expression; what is put into it is one word."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(spoken(v) if isinstance(v, ast.Constant) else "X" for v in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return spoken(node.left) + spoken(node.right)
    return ""


def messages() -> Iterator[tuple[str, str]]:
    """Yield the texts of errors, hints and options' help, each with where it is."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called.endswith(("Error", "Refused", "refuse", "say", "option")):
                for said in [*node.args, *(k.value for k in node.keywords)]:
                    yield f"{path.name}:{node.lineno}", spoken(said)


def test_long_sentences_are_found() -> None:
    long = " ".join(["word"] * 31)
    assert [len(too_long(t)) for t in (f"{long}.", f"Short. {long}.", "a. " * 40)] == [1, 1, 0]
    assert len(too_long(f"{long[:80]}; {long[:80]}", ".!?;")) == 0


def test_no_sentence_of_a_how_to_is_long() -> None:
    pages = how_tos()
    assert len(pages) >= 20
    found = [
        (p.name, s) for p in pages for part in paragraphs(p.read_text()) for s in too_long(part)
    ]
    assert found == []


def test_no_message_is_long() -> None:
    """Clauses of a message are divided by semicolons, as the values of an option are."""
    said = list(messages())
    assert len(said) > 1_000
    assert [(where, s) for where, text in said for s in too_long(text, ".!?;")] == []


def test_nothing_is_said_that_readers_stumbled_over() -> None:
    pages = [p for p in (ROOT / "docs").rglob("*.md") if p.parent.name != "theorems"]
    texts = {p.name: p.read_text("utf-8") for p in [ROOT / "README.md", *pages]}
    texts |= {
        path.name: "\n".join(
            n.value for n in ast.walk(t) if isinstance(n, ast.Constant) and isinstance(n.value, str)
        )
        for path, t in trees().items()
        if path.parent.name in ("cli", "store", "pictures", "http", "server")
    }
    plain = {name: " ".join(text.split()).lower() for name, text in texts.items()}
    assert [(name, p) for name, text in plain.items() for p in STUMBLED if p in text] == []
