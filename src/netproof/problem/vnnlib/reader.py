"""VNN-LIB, by the version in its header; without one 1.0: an SMT-LIB subset over inputs X_i and outputs Y_j."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

from netproof.errors import SpecError
from netproof.problem.formulas.boxes import Boxes
from netproof.problem.formulas.clauses import (
    FALSE,
    TRUE,
    And,
    Bound,
    Clause,
    Formula,
    Or,
    TooManyClausesError,
    disjunctive,
)
from netproof.problem.property import Ball, Disjunct, Property, Row
from netproof.problem.vnnlib.ball import ball_of
from netproof.problem.vnnlib.prelude import Plain, plain_beginning
from netproof.problem.vnnlib.sexpr import Atom, Group, SExpr, Source, parse
from netproof.problem.vnnlib.terms import SQUARE, Linear, TermReader, Variable
from netproof.problem.vnnlib.text import read_text
from netproof.problem.vnnlib.v2.reader import parse_query, version

_NAME = re.compile(r"([XY])_(0|[1-9][0-9]{0,8})")
_IGNORED = frozenset({"vnnlib-version", "set-logic", "set-option", "set-info", "get-info", "get-option", "echo"})
_CLOSING = frozenset({"check-sat", "get-model", "get-value", "exit"})
_VERSION_2 = frozenset({"declare-network", "declare-input", "declare-output"})
# (sign, strict): the constraint is sign·(left − right) <= 0, or < 0.
_COMPARISONS = {"<=": (1, False), "<": (1, True), ">=": (-1, False), ">": (-1, True)}


def load_property(path: str | Path) -> Property:
    """Read a VNN-LIB file, plain or .gz, with every number exact; its header says whether it is 2.0."""
    text, found, digest = read_text(path)
    return replace(parse_property(text, str(found)), sha256=digest)


def load_query(path: str | Path) -> Property | None:
    """Read a file as `load_property` does, if it is of VNN-LIB 2.0; None of any other, which is not read further."""
    header = version(read_text(path)[0])
    return None if header is None or header[0] == 1 else load_property(path)


def parse_property(text: str, file: str = "") -> Property:
    """Read a specification from its text; `file` is its name in messages."""
    header = version(text) if "vnnlib-version" in text else None
    with _collector_paused():
        if header is not None and header[0] != 1:
            return parse_query(text, file)
        return _read_plain(text, file) or _Reader(Source(text, file)).read()


def _read_plain(text: str, file: str) -> Property | None:
    """Read the usual file, whose declarations and bounds need no full reader; None if it is another, or wrong."""
    plain = plain_beginning(text)
    if plain is None:
        return None
    try:
        return _Reader(Source(plain.rest, file), plain).read()
    except SpecError:  # the full reader finds it again, and knows its place in the file
        return None


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the collector: syntax trees have no cycles, and collecting them takes longer than reading."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Reader:
    """Gathers declarations and assertions; `read` makes the property."""

    def __init__(self, source: Source, plain: Plain | None = None) -> None:
        """Begin with what `plain`, the part before the source's text, declares."""
        self.source = source
        self._plain = plain
        self._variables: dict[str, Variable] = {}
        self._declared: dict[Variable, int] = {}  # where, as an offset
        for names in (plain.inputs, plain.outputs) if plain else ():
            self._variables.update((name, (name[0], i)) for i, name in enumerate(names))
        self._terms = TermReader(source, self._variables)
        self._asserted: list[Formula] = []
        self._alternatives = 0  # how many `or` the formula that is read lies in
        self._ball: tuple[Linear, SExpr] | None = None
        self._closed = ""  # the command, such as check-sat, that ended the specification

    def read(self) -> Property:
        for command in parse(self.source):
            self._command(command)
        return self._finish()

    def _command(self, command: Group) -> None:
        name = command.head
        if name in _VERSION_2:
            raise self.source.error(
                f"{name!r} belongs to VNN-LIB 2.0",
                command.at,
                "begin the file with (vnnlib-version <2.0>)",
            )
        if name in ("declare-const", "declare-fun"):
            self._declare(command)
        elif name == "assert":
            if self._closed:
                raise self.source.error(f"an assertion after ({self._closed})", command.at, "give one query per file")
            if len(command.items) != 2:
                raise self.source.error("assert takes one formula", command.at, "join several with (and ...)")
            self._asserted.append(self._formula(command.items[1]))
        elif name in _CLOSING:
            self._closed = name
        elif name not in _IGNORED:
            raise self.source.error(
                f"unknown command {command}", command.at, "VNN-LIB 1.0 has declare-const and assert"
            )

    def _declare(self, command: Group) -> None:
        items: list[SExpr] = command.items[1:]
        if command.head == "declare-fun" and len(items) == 3 and isinstance(items[1], Group):
            if items[1].items:
                raise self.source.error("functions with arguments are not supported", items[1].at, "declare constants")
            del items[1]
        name, sort = items if len(items) == 2 else (command, command)
        if not isinstance(name, Atom):
            raise self.source.error(f"malformed {command.head}", command.at, "write (declare-const X_0 Real)")
        match = _NAME.fullmatch(name.text)
        if match is None:
            raise self.source.error(
                f"{str(name)!r} is not a variable of VNN-LIB 1.0",
                name.at,
                "inputs are X_0, X_1, ... and outputs are Y_0, Y_1, ...",
            )
        if not isinstance(sort, Atom) or sort.text != "Real":
            raise self.source.error(f"{name} has type {sort}", sort.at, "only Real is supported")
        variable = (match[1], int(match[2]))
        if variable in self._declared:
            line, _ = self.source.place(self._declared[variable])
            raise self.source.error(f"{name} is declared twice", name.at, f"the first declaration is on line {line}")
        self._declared[variable] = name.at
        self._variables[name.text] = variable

    def _formula(self, expr: SExpr) -> Formula:
        if isinstance(expr, Atom):
            if expr.text in ("true", "false"):
                return TRUE if expr.text == "true" else FALSE
            raise self.source.error(
                f"{str(expr)!r} is not a formula", expr.at, "write a comparison, such as (<= X_0 0.5)"
            )
        head, arguments = expr.head, expr.items[1:]
        if head in ("and", "or"):
            if not arguments:
                empty = "true" if head == "and" else "false"
                raise self.source.error(
                    f"{head!r} has no arguments", expr.at, f"give at least one formula, or write {empty}"
                )
            self._alternatives += head == "or" and len(arguments) > 1
            parts = tuple(self._formula(argument) for argument in arguments)
            self._alternatives -= head == "or" and len(arguments) > 1
            return And(parts) if head == "and" else Or(parts)
        if head in _COMPARISONS or head == "=":
            return self._comparison(expr, head, arguments)
        raise self.source.error(
            f"unknown function in {expr}" if head else "a formula must begin with a function",
            expr.at,
            "formulas are built from and, or, <=, >=, <, > and =",
        )

    def _comparison(self, expr: Group, head: str, arguments: list[SExpr]) -> Formula:
        if len(arguments) < 2:
            raise self.source.error(f"{head!r} needs two sides", expr.at, "give the missing side")
        if len(arguments) == 2 and head != "=":
            return self._simple_bound(head, *arguments) or self._compare(head, *arguments)
        pairs = pairwise(arguments)
        heads = ("<=", ">=") if head == "=" else (head,)
        return And(tuple(self._compare(h, left, right) for left, right in pairs for h in heads))

    def _simple_bound(self, head: str, left: SExpr, right: SExpr) -> Bound | None:
        """Read `(<= X_0 1)`, most of every file, without the general code; None for anything else."""
        if not (isinstance(left, Atom) and isinstance(right, Atom)):
            return None
        sign, strict = _COMPARISONS[head]
        if left.text not in self._variables:
            left, right, sign = right, left, -sign
        variable = self._variables.get(left.text)
        if variable is None or variable[0] != "X" or right.text in self._variables:
            return None
        value = self._terms.literal(right)
        return None if value is None else Bound(variable[1], sign > 0, value, strict)

    def _compare(self, head: str, left: SExpr, right: SExpr) -> Formula:
        """Read a comparison as a row, or as a bound of the box where it comes down to one input."""
        sign, strict = _COMPARISONS[head]
        difference = self._terms.term(left)
        self._terms.accumulate(difference, self._terms.term(right), -1, right)
        constant = sign * difference.pop(None, Fraction(0))
        term: Linear = {key: sign * c for key, c in difference.items() if c != 0}
        if any(key is not None and key[0] == SQUARE for key in term):
            self._keep_ball(term | {None: constant}, strict, left)
            return TRUE
        if not term:
            return TRUE if (constant < 0 if strict else constant <= 0) else FALSE
        outputs, inputs = (
            {key[1]: c for key, c in term.items() if key is not None and key[0] == kind} for kind in ("Y", "X")
        )
        if outputs or len(inputs) > 1:
            return Row(outputs, -constant, strict, inputs)
        ((index, c),) = inputs.items()
        return Bound(index, c > 0, -constant / c, strict)

    def _keep_ball(self, term: Linear, strict: bool, where: SExpr) -> None:
        """Keep an inequality with squares until the inputs are counted: it is one of all disjuncts."""
        if strict or self._alternatives or self._ball is not None:
            why = "is strict" if strict else "stands within or" if self._alternatives else "is the second one"
            raise self.source.error(f"this ball {why}", where.at, "give one ball with <= in an assertion of its own")
        self._ball = term, where

    def _finish(self) -> Property:
        if self._plain:
            inputs, outputs = len(self._plain.inputs), len(self._plain.outputs)
        else:
            inputs, outputs = self._count("X", "inputs"), self._count("Y", "outputs")
        try:
            form = disjunctive(And(tuple(self._asserted)))
        except TooManyClausesError as error:
            raise SpecError(
                f"the disjunctive form is too large: {error}",
                file=self.source.file or None,
                remedy="split the specification into several files",
            ) from error
        boxes = Boxes(inputs, form.common, self._unbounded, self._plain.box if self._plain else None)
        shared = _rows(form.common)
        ball = self._whole_ball(inputs)
        disjuncts = tuple(Disjunct(boxes.of(option), shared + _rows(option), ball) for option in form.options)
        return Property(disjuncts, inputs, outputs, self.source.file)

    def _whole_ball(self, inputs: int) -> Ball | None:
        if self._ball is None:
            return None
        term, where = self._ball
        ball = ball_of(term, inputs)
        if isinstance(ball, str):
            raise self.source.error(
                f"squares that say no ball: {ball}",
                where.at,
                "write (<= (+ (* X_0 X_0) (* X_1 X_1) ...) ...) with all inputs and linear terms of them",
            )
        return ball

    def _count(self, kind: str, what: str) -> int:
        indices = {index for k, index in self._declared if k == kind}
        if not indices:
            raise SpecError(
                f"no {what} are declared",
                file=self.source.file or None,
                remedy=f"declare them with (declare-const {kind}_0 Real)",
            )
        missing = next(i for i in range(len(indices) + 1) if i not in indices)
        if missing < len(indices):
            at = self._declared[kind, min(i for i in indices if i > missing)]
            raise self.source.error(
                f"{kind}_{missing} is not declared, though {what} after it are",
                at,
                "declare every index from 0",
            )
        return len(indices)

    def _unbounded(self, index: int, side: str) -> SpecError:
        return self.source.error(
            f"input X_{index} has no {side} bound",
            self._declared["X", index],
            f"add an assertion such as ({'<=' if side == 'upper' else '>='} X_{index} 1)",
        )


def _rows(clause: Clause) -> tuple[Row, ...]:
    return tuple(literal for literal in clause if isinstance(literal, Row))
