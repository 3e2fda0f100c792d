"""Checks of the arguments of public functions, derived from their signatures."""

from __future__ import annotations

import datetime as dt
import functools
import inspect
import os
import reprlib
import sys
from collections.abc import Callable
from importlib import import_module
from numbers import Integral, Real
from os import PathLike
from types import ModuleType
from typing import Any, TypeVar

from sparseq.base.errors import ParameterError

F = TypeVar("F", bound=Callable[..., Any])

_LONGEST_PATH, _LONGEST_NAME = 4095, 255
"""In bytes, as in the file systems of Linux and macOS."""
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "a text"),
    "bool": ((bool,), "True or False"),
    "int": ((Integral,), "a whole number"),
    "float": ((Real,), "a number"),
    "None": ((type(None),), "None"),
    "dt.date": ((dt.date,), "a date"),
    "Path": ((PathLike,), "a path"),
    "RequestId": ((), ""),
}


def check_arguments(function: F) -> F:
    """Return the function with a check that its arguments have the types in its signature.

    Only plain types are checked: texts, numbers, truth values, dates and None, alone or in a union.
    A bool is not accepted as a number, because True for a budget is a mistake; a text has only
    whole characters.

    Raises (the function):
        ParameterError: An argument is of another type.

    Example:
        >>> @check_arguments
        ... def double(number: int, name: str = "") -> int:
        ...     return 2 * number
        >>> double(4)
        8
        >>> double("4")
        Traceback (most recent call last):
        sparseq.base.errors.ParameterError: number is '4'; it must be a whole number
    """
    places = inspect.signature(function).parameters
    kinds = {n: kinds for n, p in places.items() if (kinds := _kinds_of(p))}
    names = [n for n, p in places.items() if p.kind is not inspect.Parameter.KEYWORD_ONLY]

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        for name, value in (*zip(names, args, strict=False), *named.items()):
            if name in kinds:
                _check(name, value, kinds[name])
        return function(*args, **named)

    return call  # type: ignore[return-value]


def _kinds_of(parameter: inspect.Parameter) -> list[str]:
    """Return the plain types that a parameter may have; none: it may have other types."""
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return []
    kinds = [part.strip() for part in str(parameter.annotation).split("|")]
    return kinds if all(kind in _KINDS for kind in kinds) else []


def _check(name: str, value: Any, kinds: list[str]) -> None:
    number = "bool" not in kinds and isinstance(value, bool)
    if number or not any(isinstance(value, _KINDS[kind][0]) for kind in kinds):
        wanted = " or ".join(_KINDS[kind][1] for kind in kinds if kind != "None")
        raise ParameterError(f"{name} is {_short(value)}; it must be {wanted}")
    if isinstance(value, str):
        check_text(name, value)
    if isinstance(value, Integral) and "float" in kinds and abs(int(value)) > sys.float_info.max:
        raise ParameterError(f"{name} is {_short(value)}; no float is so large")
    if "Path" in kinds and value is not None:
        check_path(name, value)


def check_path(name: str, path: str | PathLike[str]) -> None:
    """Raise an error for a path that no file system accepts; no other code needs to check it.

    Raises:
        ParameterError: The path contains NUL, or it or one of its names is too long.

    Example:
        >>> check_path("path", "x" * 256)
        Traceback (most recent call last):
        sparseq.base.errors.ParameterError: path has a name of 256 bytes; the limit is 255
    """
    text = os.fspath(path)
    if "\0" in text:
        raise ParameterError(f"{name} is {_short(text)}; a path can't contain such a character")
    whole = len(text.encode("utf-8", "surrogatepass"))
    if whole > _LONGEST_PATH:
        raise ParameterError(f"{name} has {whole:,} bytes; the limit is {_LONGEST_PATH:,}")
    longest = max(len(part.encode("utf-8", "surrogatepass")) for part in text.split(os.sep))
    if longest > _LONGEST_NAME:
        raise ParameterError(f"{name} has a name of {longest} bytes; the limit is {_LONGEST_NAME}")


def check_text(name: str, text: str) -> None:
    """Raise an error for a text with half a character (a lone surrogate), which no file can store.

    Raises:
        ParameterError: The text contains one.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ParameterError(
            f"{name} has half a character ({text[error.start]!a}) at position {error.start + 1}"
        ) from None


def _short(value: Any) -> str:
    try:
        return reprlib.repr(value)
    except Exception:  # an integer of too many digits, or a repr of the caller's that fails
        return f"a {type(value).__name__}"


def needed_polars() -> ModuleType:
    """Return Polars, the optional extra `polars`.

    Raises:
        ParameterError: Polars is not installed.
    """
    try:
        return import_module("polars")
    except ModuleNotFoundError:
        raise ParameterError(
            "this needs Polars", "pip install 'sparseq[polars]', or use .arrow() or .rows()"
        ) from None
