"""A docstring of a function says what it does: it begins with a verb in the imperative, as a caller would say it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "netproof"

# Articles, pronouns, words that ask, and words that begin a phrase without a verb.
NO_VERBS = re.compile(
    "a|an|the|it|its|they|their|them|this|that|these|those"
    "|one|ones|two|both|each|every|everything|all|any|some|several|none|nothing|only"
    "|what|which|who|whose|whether|how|when|where|why"
    "|as|at|by|for|from|in|into|of|on|onto|over|to|towards|with|without|against|about|before|after|but|if|no|not"
)


def fault(docstring: str) -> str:
    """Say what is wrong with a docstring's beginning; empty where nothing is."""
    first = docstring.split()[0] if docstring.split() else ""
    word = re.split(r"[^A-Za-z]", first)[0].lower()
    if NO_VERBS.fullmatch(word):
        return f"begins with {first!r}, which is no verb"
    if not re.match(r"[A-Z][a-z]", first):  # a shape such as (n,), code, a formula
        return f"begins with {first!r}, which is no word"
    if re.search(r"([^s]s|error|[^r]ing)$", word):  # plurals, names of exceptions, -s and -ing forms
        return f"begins with {first!r}, which is not in the imperative"
    return ""


def docstrings(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and docstring of every function and method that has one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (text := ast.get_docstring(node)):
            yield node.lineno, node.name, text


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_docstrings_of_functions_begin_with_a_verb(path: Path) -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}: {why}"
        for line, name, text in docstrings(path.read_text(encoding="utf-8"))
        if (why := fault(text))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "The rows of all targets.",
        "A point of the set.",
        "Whether these can be searched together.",
        "What follows from the evidence.",
        "How many starts each target has.",
        "(box,): some row is above the threshold.",
        "(n, *input) -> (n, *output).",
        "`nodes` are in topological order.",
        "max_j r_j of outputs.",
        "Their indices, (n,).",
        "Every task's outcome.",
        "By target, the share that is proved.",
        "Raises DeadlineExpired.",
        "Points of the whole sets.",
        "Rewriting of a graph.",
        "OverflowError where a value is beyond float64.",
        "1-D as 2-D.",
    ],
)
def test_a_beginning_without_a_verb_is_noticed(text: str) -> None:
    assert fault(text)


@pytest.mark.parametrize(
    "text",
    ["Return the rows.", "Say whether it is over.", "Pass the value on.", "Pick, split, bound, filter.", "Bring it."],
)
def test_an_imperative_is_accepted(text: str) -> None:
    assert not fault(text)


def test_the_rule_is_checked_somewhere() -> None:
    assert len(FILES) > 100
