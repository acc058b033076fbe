"""From the text of a VNN-LIB 2.0 query to a property, with every number exact."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from netproof.errors import SpecError
from netproof.problem.derived import Atom
from netproof.problem.formulas.arithmetic import Arithmetic
from netproof.problem.formulas.build import build, compared
from netproof.problem.formulas.normal import Formula, conjunction, disjunction
from netproof.problem.networks.interface import Interface
from netproof.problem.property import Property
from netproof.problem.vnnlib.sexpr import Source
from netproof.problem.vnnlib.v2.declarations import Declarations
from netproof.problem.vnnlib.v2.package import parsed, visible
from netproof.problem.vnnlib.v2.terms import TermReader

_VERSION = re.compile(r"[ \t\r\n]*\([ \t\r\n]*vnnlib-version[ \t\r\n]*<([0-9]{1,4})\.([0-9]{1,4})>")
# By the package's names.
_RELATIONS = {
    "LessEqual": "<=",
    "LessThan": "<",
    "GreaterEqual": ">=",
    "GreaterThan": ">",
    "Equal": "==",
    "NotEqual": "!=",
}


def version(text: str) -> tuple[int, int] | None:
    """Return the version that the header of a text names; None where there is no header."""
    match = _VERSION.match(visible(_lines(text)))
    return None if match is None else (int(match[1]), int(match[2]))


def _lines(text: str) -> str:
    """Return the text with LF at the end of every line."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parse_query(text: str, file: str = "") -> Property:
    """Read a query from its text; `file` is its name in messages."""
    source = Source(_lines(text), file)
    match = _VERSION.match(visible(source.text))
    if match is not None and (match[1], match[2]) != ("2", "0"):
        at = match.group().index("(")
        raise source.error(f"VNN-LIB {match[1]}.{match[2]} is not known", at, "1.0 and 2.0 are")
    return _Reader(source).read()


class _Reader:
    """Reads the declarations, and the assertions as often as `build` asks for them."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._query = parsed(source)
        self._declared = Declarations(source, self._query)
        self._place: Sequence[int] = ()  # by input, its entry of x
        self._terms = TermReader(self._atom, source.file)

    def read(self) -> Property:
        built = build(self._declared.inputs, self._declared.outputs, self._formulas, self._terms.wrong)
        interface = Interface(self._declared.networks, built.place)
        return Property(
            built.disjuncts(lambda index, side: self._unbounded(interface, index, side)),
            built.entries,
            built.outputs,
            self._source.file,
            derived=built.derived,
            interface=interface,
            vacuous=built.vacuous,
        )

    def _formulas(self, place: Sequence[int], arithmetic: Arithmetic) -> list[Formula]:
        self._place = place
        return [self._formula(assertion.expr, arithmetic) for assertion in self._query.assertions]

    def _formula(self, expr: Any, arithmetic: Arithmetic) -> Formula:
        kind = type(expr).__name__
        if kind in ("And", "Or"):
            parts = [self._formula(part, arithmetic) for part in expr.args]
            return conjunction(parts) if kind == "And" else disjunction(parts)
        return compared(self._terms.difference(expr.lhs, expr.rhs, arithmetic), _RELATIONS[kind])

    def _atom(self, name: str, indices: Sequence[int]) -> Atom:
        kind, index = self._declared.atom(name, list(indices))
        return (kind, self._place[index]) if kind == "x" else (kind, index)

    def _unbounded(self, interface: Interface, index: int, side: str) -> SpecError:
        name = interface.name(index)
        return self._declared.error(
            f"input {name} has no {side} bound",
            name.partition("[")[0],
            f"add an assertion such as ({'<=' if side == 'upper' else '>='} {name} 1.0)",
        )
