"""The fields of a method: each declares its default, range and help once, and reads its value from text."""

from __future__ import annotations

import math
import numbers
import os
from dataclasses import dataclass
from typing import Any

from netproof.arguments import shown
from netproof.errors import UsageError

Value = int | float | bool | str | None  # of an option; a text names a file


@dataclass(frozen=True)
class Field:
    """An option of a method: its default, range and help."""

    name: str
    type: type
    default: Value
    help: str
    low: float | None = None
    high: float | None = None
    optional: bool = False  # whether "none" is a value, as it is where it is the default

    def parse(self, given: Any) -> Value:
        """Read the value from a text or from a value of this type; UsageError if it is neither, or out of range.

        None, or the word, is a value where it is the default (netproof chooses) and of an optional field.
        """
        nothing = given is None or (isinstance(given, str) and given.lower() == "none")
        if nothing and (self.default is None or self.optional):
            return None
        try:
            value = _parse(self.type, given)
        except OverflowError:  # an int or a fraction that no float holds
            raise UsageError(f"{self.name}: outside {self.range}", remedy=f"{self.name}: {self.help}") from None
        except ValueError:
            kind = _KINDS[self.type]
            text = given if isinstance(given, str) else shown(given)
            raise UsageError(f"{self.name}={text}: not {kind}", remedy=f"{self.name}: {self.help}") from None
        if isinstance(value, str):
            return value
        inside = (self.low is None or value >= self.low) and (self.high is None or value <= self.high)
        if not inside or (isinstance(value, float) and not math.isfinite(value)):
            raise UsageError(f"{self.name}={value}: outside {self.range}", remedy=f"{self.name}: {self.help}")
        return value

    @property
    def range(self) -> str:
        low = "-inf" if self.low is None else f"{self.low:g}"
        high = "inf" if self.high is None else f"{self.high:g}"
        return f"[{low}, {high}]"


_KINDS = {bool: "a bool", int: "an int", float: "a float", str: "the name of a file"}


def _parse(kind: type, given: Any) -> int | float | bool | str:
    if kind is str:
        if not isinstance(given, str | os.PathLike) or not str(given):
            raise ValueError
        return str(given)
    if isinstance(given, str):
        return _WORDS[given.lower()] if kind is bool and given.lower() in _WORDS else _number(kind, given)
    accepted = {bool: bool, int: numbers.Integral, float: numbers.Real}[kind]
    if not isinstance(given, accepted) or isinstance(given, bool) != (kind is bool):
        raise ValueError
    return kind(given)  # type: ignore[no-any-return]


_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _number(kind: type, text: str) -> int | float:
    if kind is bool:
        raise ValueError
    return int(text) if kind is int else float(text)
