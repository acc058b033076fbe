"""Checks of what a Python program passes: numbers, names and callables, each refused in one line with a remedy."""

from __future__ import annotations

import inspect
import math
import numbers
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from netproof.errors import UsageError


def whole(value: Any, name: str, low: int | None = None, high: int | None = None) -> int:
    """Check an integer of any library and return it as an int; a truth value is none.

    >>> whole(3, "label"), whole(True, "label")
    Traceback (most recent call last):
    netproof.errors.UsageError: label cannot be True (give an integer)
    """
    remedy = "give an integer" + ("" if low is None else f" from {low} to {high}" if high is not None else f" >= {low}")
    if _is_bool(value) or isinstance(value, str | bytes):
        raise UsageError(f"{name} cannot be {shown(value)}", remedy=remedy)
    try:
        found = operator.index(value)
    except (TypeError, ValueError, RuntimeError):  # what torch raises for a tensor of several, or without data
        raise UsageError(f"{name} cannot be {shown(value)}", remedy=remedy) from None
    if (low is not None and found < low) or (high is not None and found > high):
        raise UsageError(f"{name} cannot be {found}", remedy=remedy)
    return found


def whole_numbers(values: Any, name: str, low: int | None = None, high: int | None = None) -> list[int]:
    """Check a sequence of integers and return it as a list."""
    try:
        found = None if isinstance(values, str | bytes | Mapping) else list(values)
    except (TypeError, ValueError, RuntimeError):  # no sequence, or an array without axes
        found = None
    if found is None:
        raise UsageError(f"{name} cannot be {shown(values)}", remedy=f"give a list of integers, as {name}=[3]")
    return [whole(value, f"an entry of {name}", low, high) for value in found]


def seconds(value: Any, name: str = "timeout") -> float | None:
    """Check a time limit; None means no limit."""
    if value is None:
        return None
    real = isinstance(value, numbers.Real) and not _is_bool(value)
    if not real or not math.isfinite(value) or value < 0:
        raise UsageError(f"{name} cannot be {shown(value)}", remedy="give seconds, or None for no limit")
    return float(value)


def flag(value: Any, name: str) -> bool:
    """Check a truth value; what only counts as one is refused."""
    if not _is_bool(value):
        raise UsageError(f"{name} cannot be {shown(value)}", remedy="give True or False")
    return bool(value)


def word(value: Any, name: str, example: str) -> str:
    """Check a name, such as that of a method or device."""
    if not isinstance(value, str):
        raise UsageError(f"{name} cannot be {shown(value)}", remedy=f'give a name, as {name}="{example}"')
    return value


def words(values: Any, name: str) -> list[str]:
    """Check a sequence of names; one name alone is none."""
    names = list(values) if isinstance(values, Sequence) and not isinstance(values, str | bytes) else []
    if not names or not all(isinstance(value, str) for value in names):
        raise UsageError(f"{name} cannot be {shown(values)}", remedy=f'give a list of names, as {name}=["y"]')
    return names


def callback(value: Any, name: str) -> Callable[[Any], None] | None:
    """Check a function to call with one argument, or None."""
    if value is not None and not (callable(value) and _takes_one(value)):
        raise UsageError(f"{name} cannot be {shown(value)}", remedy="give a function of one argument, or None")
    return value  # type: ignore[no-any-return]


def _takes_one(function: Callable[..., Any]) -> bool:
    """Say whether a function can be called with one argument; of one that does not tell, yes."""
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # written in C
        return True
    return True


def fields(value: Any, name: str) -> Mapping[str, Any]:
    """Check options by name; None stands for none."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise UsageError(f"{name} cannot be {shown(value)}", remedy=f'give a dictionary, as {name}={{"batch": 64}}')
    return value


def path(value: Any, name: str, others: str) -> Path:
    """Check a path to a file, where nothing else that is accepted was given."""
    if not isinstance(value, str | os.PathLike):
        raise UsageError(f"{name} cannot be {shown(value)}", remedy=f"give a path, or {others}")
    return Path(value)


def shown(value: Any) -> str:
    """Show a value in an error message: by its text where that is short, else by its type."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 40 else f"this {type(value).__name__}"


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or str(getattr(value, "dtype", "")) in ("bool", "torch.bool")
