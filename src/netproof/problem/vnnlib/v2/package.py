"""The `vnnlib` package: its syntax tree of a text, and what it refuses as one line with its place.

What it lets pass though the standard does not (an unknown type, an index such as -1 or 1.5) is refused here.
"""

from __future__ import annotations

import json
import re
from typing import Any

from netproof.errors import SpecError, UsageError
from netproof.problem.vnnlib.sexpr import MAX_DEPTH, Source, cut

# What is no comment and no string: the rest of a text can be searched without finding words in these.
_HIDDEN = re.compile(r'"[^"\n]*"|;[^\n]*')
_BRACKETS = re.compile(r"\[([^\[\]()]*)\]")
_WHOLE = re.compile(r"[ \t\n]*(?:0|[1-9][0-9]{0,8})[ \t\n]*")
_SYNTAX = re.compile(r"syntax error at line (\d+), column (\d+): '(.*)'", re.DOTALL)
_REMEDIES = {
    "TypeMismatch": "one comparison holds one type; a real or a float is compared with numbers such as 1.0, not 1",
    "UndeclaredVariable": "declare it in a network",
    "IndexOutOfBounds": "indices count from 0",
    "TooManyIndices": "give one index for each axis",
    "NotEnoughIndices": "give one index for each axis, as in X[0,2]",
    "InvalidDimensions": "give positive whole numbers, or [] for a scalar",
    "MultipleDeclaration": "names are unique in a query",
    "VariableShapeMismatch": "such networks have tensors of the same shapes",
    "ChainedEquivalence": "refer to the network that has a file of its own",
}


def visible(text: str) -> str:
    """Return the text with blanks in place of comments and strings, so that offsets stay what they are."""
    return _HIDDEN.sub(lambda match: " " * len(match.group()), text)


def parsed(source: Source) -> Any:
    """Return the package's typed query of a text whose lines end with LF; SpecError where it is refused."""
    try:
        import vnnlib
    except Exception as error:  # missing, or built for another platform
        raise UsageError(
            f"VNN-LIB 2.0 needs the package vnnlib, which cannot be imported: {error}",
            file=source.file or None,
            remedy="pip install vnnlib==1.0.2, or write the specification in VNN-LIB 1.0",
        ) from error
    _check(source)
    try:
        return vnnlib.parse_query_string(source.text)
    except vnnlib.VNNLibException as error:
        raise _refused(source, str(error)) from None
    except (UnicodeDecodeError, IndexError, ValueError, RuntimeError) as error:
        raise SpecError(
            f"the package vnnlib cannot read it: {error}",
            file=source.file or None,
            remedy="check it against the standard",
        ) from None


def _check(source: Source) -> None:
    """Refuse what the package takes wrongly, or ends in an error of its own for."""
    text = visible(source.text)
    odd = next((i for i, char in enumerate(text) if not char.isascii() or (char < " " and char not in "\t\n")), None)
    if odd is not None:
        raise source.error(f"the character U+{ord(text[odd]):04X} cannot stand here", odd, "use ASCII outside comments")
    depth = 0
    for match in re.finditer(r"[()]", text):
        depth += 1 if match.group() == "(" else -1
        if depth > MAX_DEPTH:
            raise source.error(
                f"parentheses are nested deeper than {MAX_DEPTH}",
                match.start(),
                "flatten the formula: and, or, + and * take any number of arguments",
            )
    for match in _BRACKETS.finditer(text):
        if match[1].strip(" \t\n") and not all(_WHOLE.fullmatch(part) for part in match[1].split(",")):
            raise source.error(f"{_short(match.group())} is no shape and no index", match.start(), "as in [0,2]")


def _refused(source: Source, message: str) -> SpecError:
    match = _SYNTAX.search(message)
    if match is not None:
        return _syntax(source, int(match[1]), int(match[2]), match[3])
    try:
        first = json.loads(message)["errors"][0]
    except (ValueError, KeyError, IndexError, TypeError):
        return SpecError(f"the package vnnlib refuses it: {cut(message)}", file=source.file or None)
    symbol, line = str(first.get("offendingSymbol", "")), first.get("line")
    hint = str(first.get("hint", "")).rstrip(".")
    return SpecError(
        cut(f"{_short(symbol)}: {str(first['message'])[:1].lower()}{str(first['message'])[1:]}; {hint}"),
        file=source.file or None,
        line=line,
        column=_column(source, line, symbol),
        remedy=_REMEDIES.get(first.get("errorCode", ""), "check it against the standard"),
    )


def _syntax(source: Source, line: int, column: int, token: str) -> SpecError:
    """Say what is wrong at a token; the package counts columns from 0, and on the first line from 1."""
    lines = source.text.split("\n")
    here = lines[line - 1] if line <= len(lines) else ""
    at = next((c for c in (column, column - 1) if token and here[c : c + len(token)] == token and c >= 0), None)
    before = here[:at] if at is not None else ""
    remedy = "see docs/properties.md for what VNN-LIB 2.0 allows"
    if not token:
        what, remedy = "the file ends too early", "a query has networks, then assertions; close every parenthesis"
    elif re.match(r"[eE]\b|[eE][0-9]", token) and re.search(r"[0-9]$", before):
        what, remedy = "a number with an exponent is no number of VNN-LIB 2.0", "write it out, as in 0.001"
    elif re.search(r"\(\s*$", before) and re.match(r"[A-Za-z0-9_]", token) and not token.startswith("("):
        what = f"{_short(token)!r} is no operator"
        remedy = "operators stand first: and, or, <=, >=, <, >, ==, !=, +, -, *, as in (<= X[0] 1.0)"
    elif token == "=":
        what, remedy = "'=' is no operator", "equality is written =="
    else:
        what = f"{_short(token)!r} is not expected here"
    return SpecError(what, file=source.file or None, line=line, column=None if at is None else at + 1, remedy=remedy)


def _column(source: Source, line: int | None, symbol: str) -> int | None:
    """Find a symbol on its line, counted from 1; None where it stands there in another form, or not at all."""
    lines = visible(source.text).split("\n")
    if line is None or not 0 < line <= len(lines) or not symbol:
        return None
    name, _, _ = symbol.partition("[")
    exact = re.search(rf"(?<![\w.\-]){re.escape(symbol)}(?![\w.])", lines[line - 1])
    found = exact or re.search(rf"(?<![\w.\-]){re.escape(name)}(?![\w.])", lines[line - 1])
    return found.start() + 1 if found else None


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
