"""From the text of a VNN-LIB 1.0 file to the question that it asks: is there an input, in a box, whose output is so?

    (declare-const X_0 Real)  (declare-const Y_0 Real)             inputs and outputs, numbered from 0
    (assert (<= (+ (* 2.0 Y_0) -1e-3) Y_1))                        <=, >=, <, > of sums and products with constants
    (assert (or (and (>= X_0 0) (<= Y_0 1)) (<= Y_0 Y_1)))         and, or
    (assert (<= (+ (* X_0 X_0) (* X_1 X_1)) (+ X_0 0.75)))         balls: equal multiples of squares of inputs
    (assert (= Y_0 (/ Y_1 3)))                                     = is <= and >=; / by constants
    (declare-fun X_1 () Real)                                      the same as declare-const
    (set-logic QF_LRA) (check-sat)                                 say nothing; nothing is asserted after check-sat

The assertions describe a violation. They are brought to a disjunction of conjunctions, the disjuncts, in this order:
an `or` has the alternatives of its parts one after the other; an `and` has every combination of alternatives of its
parts, where those of the last part change fastest; and the assertions together are like one `and`, in the order of the
file. In a disjunct, inequalities on one single input are put together to a box. All others are rows, in the order in
which they are written.

As in SMT-LIB, texts "…" and names |…| may have parentheses and semicolons in them. They stand in commands that say
nothing.

All numbers are exact fractions. A proof takes a strict bound of the box as one that is not: the box is then larger than
what is asked for, by points of its border, and so a proof about it is a proof. The parentheses are read with a stack of
our own, so no depth of theirs is too much for the interpreter.

A text may be hostile: what it makes this reader hold and copy is counted, and limited by the numbers below.
"""

from __future__ import annotations

import gc
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from npcheck.errors import Refused

MOST_TEXT = 1 << 27  # characters
MOST_FRAMES = 1 << 22  # pairs of parentheses
DEEPEST = 1 << 17  # of them within each other
MOST_DISJUNCTS = 10**5
MOST_WORDS = 1 << 16  # whose meaning is held
MOST_WORK = 4 * 10**7  # inequalities and terms that are copied while formulas are put together
MOST_DIGITS = 1000  # of a number as it is written
MOST_EXPONENT = 400
MOST_BITS = 1 << 13  # of a numerator or denominator that is computed

_TOKEN = re.compile(r"""[ \t\r\n]+|;[^\r\n]*|[()]|"[^"]*"|\|[^|]*\||["|]|[^ \t\r\n();"|]+""")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?")
_NAME = re.compile(r"[XY]_(0|[1-9][0-9]{0,8})")
_LINE = re.compile(r"\r\n|\r|\n")
_DECLARING = ("declare-const", "declare-fun")
_SILENT = ("set-logic", "set-info", "set-option")  # what they say changes nothing in what is asked
_LAST = ("check-sat", "get-model", "exit")  # nothing is asserted after one of them
_NEWER = ("vnnlib-version", "declare-network", "declare-input", "declare-output", "declare-hidden")


@dataclass(frozen=True, slots=True)
class Row:
    """sum c·Y + sum a·X <= right, or < where it is strict; without any variable it is merely true or false."""

    outputs: dict[int, Fraction]
    inputs: dict[int, Fraction]
    right: Fraction
    strict: bool


@dataclass(frozen=True)
class Ball:
    """Σ (X_i − centre_i)² <= square over some inputs, or < where it is strict; empty where the square is below 0."""

    inputs: tuple[int, ...]  # ascending
    centre: tuple[Fraction, ...]
    square: Fraction  # of the radius
    strict: bool

    def contains(self, point: Sequence[Fraction]) -> bool:
        """Say whether a point (n,) is in it."""
        distance = sum(((point[i] - c) ** 2 for i, c in zip(self.inputs, self.centre, strict=True)), Fraction(0))
        return distance < self.square or (distance == self.square and not self.strict)


@dataclass(frozen=True)
class Disjunct:
    """A violation: an input in the box, and in the ball if there is one, for which all rows hold."""

    lower: tuple[Fraction, ...]
    upper: tuple[Fraction, ...]
    open: tuple[frozenset[int], frozenset[int]]  # inputs whose lower, and whose upper bound is strict
    rows: tuple[Row, ...]
    ball: Ball | None = None

    @property
    def empty(self) -> bool:
        """Say whether the box has no points."""
        return any(low > high for low, high in zip(self.lower, self.upper, strict=True))


@dataclass(frozen=True)
class Question:
    """The numbers of inputs and outputs, and the violations, in the order described above."""

    inputs: int
    outputs: int
    disjuncts: tuple[Disjunct, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """X_input <= value if it is an upper one, otherwise X_input >= value."""

    input: int
    value: Fraction
    upper: bool
    strict: bool

    def tighter(self, other: Bound) -> bool:
        """Say whether fewer numbers are within it than within another one of the same side."""
        if self.value == other.value:
            return self.strict
        return (self.value < other.value) is self.upper


@dataclass(frozen=True, slots=True)
class Sum:
    """A constant and multiples of variables, by name; the square of X_3 has the name ²X_3."""

    terms: dict[str, Fraction]
    constant: Fraction


@dataclass(frozen=True, slots=True)
class Formula:
    """Alternatives, each a conjunction of inequalities."""

    alternatives: tuple[tuple[Bound | Row | Ball, ...], ...]


@dataclass(slots=True)
class Frame:
    """What lies between a parenthesis and its partner, as far as it was read."""

    at: int
    head: str = ""
    parts: list[Sum | Formula | str] = field(default_factory=list)


def read_question(text: str | bytes) -> Question:
    """Read a file; `Refused` says what in it is not known here, and where it stands."""
    if len(text) > MOST_TEXT:
        raise Refused(f"the specification has more than {MOST_TEXT} characters")
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError:
            raise Refused("the specification is not a text in UTF-8") from None
    enabled = gc.isenabled()
    gc.disable()  # what is read has no cycles, and looking for some takes longer than reading
    try:
        return _Reader(text).read()
    finally:
        if enabled:
            gc.enable()


@lru_cache(maxsize=1 << 16)
def number(token: str) -> Fraction | None:
    """Read a decimal number exactly; None if it is not one, or is too long."""
    match = _NUMBER.fullmatch(token)
    if match is None or len(token) > MOST_DIGITS or abs(int(match.group(1) or "0")) > MOST_EXPONENT:
        return None
    return Fraction(token)


class _Reader:
    """Reads a text from its beginning to its end, and keeps what was declared and asserted."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.declared: dict[str, int] = {}
        self.formulas: list[Formula] = []
        self.last = ""  # the command after which nothing is asserted
        self.work = 0
        self._words: dict[str, Sum] = {}

    def read(self) -> Question:
        """Go through the text: a frame is opened at "(" and is replaced by what it means at ")"."""
        open_frames: list[Frame] = []
        frames = 0
        for at, token in self._tokens():
            if token == "(":
                frames += 1
                if frames > MOST_FRAMES or len(open_frames) >= DEEPEST:
                    raise self._refused(
                        at, f"more than {MOST_FRAMES} parentheses, or more than {DEEPEST} in each other"
                    )
                open_frames.append(Frame(at))
            elif token in ('"', "|"):
                raise self._refused(at, f"this {token} has no partner")
            elif not open_frames:
                raise self._refused(at, f"{token[:40]!r} stands outside of parentheses")
            elif token != ")":
                self._take(open_frames[-1], len(open_frames), at, token)
            else:
                frame = open_frames.pop()
                if open_frames and open_frames[-1].head == "declare-fun" and not frame.head and not frame.parts:
                    open_frames[-1].parts.append("()")
                elif open_frames:
                    self._put(open_frames[-1], frame, self._meaning(frame))
                else:
                    self._command(frame)
        if open_frames:
            raise self._refused(open_frames[-1].at, "this parenthesis is never closed")
        return self._question()

    def _tokens(self) -> Iterator[tuple[int, str]]:
        """Go through parentheses and words, each with its place; every character is in some match of the pattern."""
        for match in _TOKEN.finditer(self.text):
            token = match.group()
            if token[0] not in " \t\r\n;":
                yield match.start(), token

    def _refused(self, at: int, message: str) -> Refused:
        """Return an error with line and column, counted from 1."""
        line, begin = 1, 0
        for match in _LINE.finditer(self.text, 0, at):
            line, begin = line + 1, match.end()
        return Refused(f"line {line}, column {at - begin + 1}: {message}")

    # --- words ---

    def _take(self, frame: Frame, depth: int, at: int, token: str) -> None:
        """Put a word into a frame: its head, a number or the name of a variable."""
        if not frame.head:
            if frame.parts:
                raise self._refused(frame.at, "an expression begins with another one")
            frame.head = token
            self._check_head(depth, at, token)
        elif frame.head in (*_DECLARING, *_SILENT):
            frame.parts.append(token)
        else:
            if token not in self._words:
                self._words[token] = self._word(at, token)
                self._spend(frame, 8 + len(token) // 16)
            frame.parts.append(self._words[token])
            self._spend(frame, 1)

    def _word(self, at: int, token: str) -> Sum:
        """Return what a variable or a number means; words that are used again are held once."""
        if token in self.declared:
            return Sum({token: Fraction(1)}, Fraction(0))
        value = number(token)
        if value is None:
            what = "is not declared" if _NAME.fullmatch(token) else "is not known, or is a number out of range"
            raise self._refused(at, f"{token[:40]!r} {what}")
        if len(self._words) > MOST_WORDS:
            self._words.clear()
        return Sum({}, value)

    def _check_head(self, depth: int, at: int, head: str) -> None:
        """Refuse what is neither a command, outside, nor an operator, within."""
        if head in _NEWER:
            raise self._refused(at, f"{head!r} is of VNN-LIB 2.0, only 1.0 is supported")
        commands = ("assert", *_DECLARING, *_SILENT, *_LAST)
        if head not in (commands if depth == 1 else tuple(_MEANINGS)):
            what = "a command" if depth == 1 else "an operator"
            raise self._refused(at, f"{head[:40]!r} is not {what} that is known here")

    def _put(self, outer: Frame, inner: Frame, value: Sum | Formula) -> None:
        """Put what a frame means into the one around it."""
        if not outer.head:
            raise self._refused(outer.at, "an expression begins with another one")
        if outer.head in (*_DECLARING, *_SILENT, *_LAST):
            raise self._refused(inner.at, f"{outer.head!r} has words, nothing else")
        outer.parts.append(value)

    # --- expressions ---

    def _meaning(self, frame: Frame) -> Sum | Formula:
        """Return what an expression means, whose parts are known."""
        if not frame.parts:
            raise self._refused(frame.at, f"{frame.head!r} has no operands")
        return _MEANINGS[frame.head](self, frame)

    def _sums(self, frame: Frame) -> list[Sum]:
        sums = [part for part in frame.parts if isinstance(part, Sum)]
        if len(sums) != len(frame.parts):
            raise self._refused(frame.at, f"an operand of {frame.head!r} is not a number or a variable")
        return sums

    def _formulas(self, frame: Frame) -> list[Formula]:
        formulas = [part for part in frame.parts if isinstance(part, Formula)]
        if len(formulas) != len(frame.parts):
            raise self._refused(frame.at, f"an operand of {frame.head!r} is not true or false")
        return formulas

    def _spend(self, frame: Frame, work: int) -> None:
        """Count what is copied, so that a small file cannot ask for much time or memory."""
        self.work += work
        if self.work > MOST_WORK:
            raise self._refused(frame.at, "the formulas are too large when they are put together")

    def _combined(self, frame: Frame, sums: Sequence[Sum], factors: Sequence[int]) -> Sum:
        """Return a sum of sums, each with a sign; variables that cancel are left out."""
        self._spend(frame, sum(1 + len(part.terms) for part in sums))
        constant, terms = Fraction(0), dict[str, Fraction]()
        for part, factor in zip(sums, factors, strict=True):
            constant = self._bounded(frame, constant + factor * part.constant)
            for name, value in part.terms.items():
                terms[name] = self._bounded(frame, terms.get(name, Fraction(0)) + factor * value)
        return Sum({name: value for name, value in terms.items() if value}, constant)

    def _bounded(self, frame: Frame, value: Fraction) -> Fraction:
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > MOST_BITS:
            raise self._refused(frame.at, f"a number has more than {MOST_BITS} bits")
        return value

    def _plus(self, frame: Frame) -> Sum:
        sums = self._sums(frame)
        return self._combined(frame, sums, [1] * len(sums))

    def _minus(self, frame: Frame) -> Sum:
        sums = self._sums(frame)
        first = -1 if len(sums) == 1 else 1
        return self._combined(frame, sums, [first] + [-1] * (len(sums) - 1))

    def _product(self, frame: Frame) -> Sum:
        """Multiply constants with a sum that has variables, or with two of the same input alone."""
        factor, others = Fraction(1), []
        for part in self._sums(frame):
            if part.terms:
                others.append(part)
            else:
                factor = self._bounded(frame, factor * part.constant)
        if not others:
            return Sum({}, factor)
        if len(others) > 1:
            others = [self._square(frame, others)]
        self._spend(frame, len(others[0].terms))
        terms = {name: self._bounded(frame, factor * value) for name, value in others[0].terms.items() if factor}
        return Sum(terms, self._bounded(frame, factor * others[0].constant))

    def _quotient(self, frame: Frame) -> Sum:
        """Divide a sum by constants."""
        first, *divisors = self._sums(frame)
        if not divisors or any(part.terms or not part.constant for part in divisors):
            raise self._refused(frame.at, "a quotient is of a sum and constants that are not 0")
        factor = Fraction(1)
        for part in divisors:
            factor = self._bounded(frame, factor / part.constant)
        self._spend(frame, len(first.terms))
        terms = {name: self._bounded(frame, factor * value) for name, value in first.terms.items()}
        return Sum(terms, self._bounded(frame, factor * first.constant))

    def _comparison(self, frame: Frame) -> Formula:
        """Read an inequality; (<= a b c) is (<= a b) and (<= b c), and = is <= and >=."""
        heads = ("<=", ">=") if frame.head == "=" else (frame.head,)
        pairs = list(itertools.pairwise(frame.parts))
        if len(pairs) < 2 and len(heads) == 1:
            return self._inequality(frame)
        if not pairs:
            raise self._refused(frame.at, f"{frame.head!r} has 1 operand, not 2")
        return self._and(
            Frame(
                frame.at,
                "and",
                [self._inequality(Frame(frame.at, head, list(pair))) for pair in pairs for head in heads],
            )
        )

    def _inequality(self, frame: Frame) -> Formula:
        """Bring an inequality to the form: variables <= constant. On one input alone, it is a bound."""
        sums = self._sums(frame)
        if len(sums) != 2:
            raise self._refused(frame.at, f"{frame.head!r} has {len(sums)} operands, not 2")
        signs, strict = (1, -1) if frame.head in ("<=", "<") else (-1, 1), frame.head in ("<", ">")
        difference = self._combined(frame, sums, signs)
        right = -difference.constant
        if any(name[0] == "²" for name in difference.terms):
            return Formula(((self._ball(frame, difference, strict),),))
        if len(difference.terms) == 1:
            (name, factor), *_ = difference.terms.items()
            if name[0] == "X":
                bound = Bound(self.declared[name], self._bounded(frame, right / factor), factor > 0, strict)
                return Formula(((bound,),))
        places = sorted((name[0], self.declared[name], factor) for name, factor in difference.terms.items())
        outputs = {place: factor for kind, place, factor in places if kind == "Y"}
        inputs = {place: factor for kind, place, factor in places if kind == "X"}
        return Formula(((Row(outputs, inputs, right, strict),),))

    def _square(self, frame: Frame, factors: list[Sum]) -> Sum:
        """Return (f·x + g)·(h·x + k) of one input x."""
        names = {name for part in factors for name in part.terms}
        (name, *others) = names
        if others or name[0] != "X" or len(factors) > 2:
            raise self._refused(frame.at, "a product of variables is not supported, but the square of an input")
        (f, g), (h, k) = ((part.terms[name], part.constant) for part in factors)
        terms = {f"²{name}": self._bounded(frame, f * h), name: self._bounded(frame, f * k + g * h)}
        return Sum({key: value for key, value in terms.items() if value}, self._bounded(frame, g * k))

    def _ball(self, frame: Frame, difference: Sum, strict: bool) -> Ball:
        """Bring s·Σ x² + Σ b·x + d <= 0, with s > 0, to the form Σ (x − c)² <= Σ c² − d / s, with c = −b / 2s."""
        squares = {self.declared[name[1:]]: value for name, value in difference.terms.items() if name[0] == "²"}
        linear = {self.declared[name]: value for name, value in difference.terms.items() if name[0] == "X"}
        (scale, *others) = set(squares.values())
        if len(squares) + len(linear) != len(difference.terms) or not linear.keys() <= squares.keys() or others:
            raise self._refused(frame.at, "squares of inputs are only supported where they say a ball")
        if scale < 0:
            raise self._refused(frame.at, "the inequality says the outside of a ball, which is not supported")
        inputs = tuple(sorted(squares))
        centre = tuple(self._bounded(frame, linear.get(i, Fraction(0)) / (-2 * scale)) for i in inputs)
        square = -difference.constant / scale
        for c in centre:
            square = self._bounded(frame, square + c * c)
        return Ball(inputs, centre, square, strict)

    def _or(self, frame: Frame) -> Formula:
        """Return the alternatives of all parts, one after the other."""
        formulas = self._formulas(frame)
        if len(formulas) == 1:
            return formulas[0]
        count = sum(len(formula.alternatives) for formula in formulas)
        if count > MOST_DISJUNCTS:
            raise self._refused(frame.at, f"there are more than {MOST_DISJUNCTS} alternatives")
        self._spend(frame, count)
        return Formula(tuple(itertools.chain.from_iterable(formula.alternatives for formula in formulas)))

    def _and(self, frame: Frame) -> Formula:
        """Return all combinations of alternatives of the parts, those of the last part changing fastest."""
        formulas = self._formulas(frame)
        if len(formulas) == 1:
            return formulas[0]
        count = math.prod(len(formula.alternatives) for formula in formulas)
        if count > MOST_DISJUNCTS:
            raise self._refused(frame.at, f"there are more than {MOST_DISJUNCTS} alternatives")
        # An alternative of a part is in count / (how many the part has) combinations.
        self._spend(frame, sum(_length(part) * (count // len(part.alternatives)) + count for part in formulas))
        combinations = itertools.product(*(formula.alternatives for formula in formulas))
        return Formula(tuple(tuple(itertools.chain.from_iterable(parts)) for parts in combinations))

    # --- commands ---

    def _command(self, frame: Frame) -> None:
        """Declare a variable, or assert a formula."""
        if frame.head in _LAST:
            if frame.parts:
                raise self._refused(frame.at, f"{frame.head!r} has no operands")
            self.last = frame.head
            return
        if frame.head in _SILENT:
            return
        if self.last:
            raise self._refused(frame.at, f"{frame.head!r} stands after {self.last!r}")
        if frame.head == "assert":
            formulas = self._formulas(frame)
            if len(formulas) != 1:
                raise self._refused(frame.at, f"an assertion has {len(formulas)} formulas, not one")
            self.formulas.append(formulas[0])
            return
        if frame.head not in _DECLARING:
            raise self._refused(frame.at, "a command is empty")
        if frame.head == "declare-fun" and frame.parts[1:2] == ["()"]:
            del frame.parts[1]
        name = str(frame.parts[0]) if frame.parts else ""
        if len(frame.parts) != 2 or frame.parts[1] != "Real" or not _NAME.fullmatch(name):
            raise self._refused(frame.at, "a declaration is of X_0, X_1, ... or Y_0, Y_1, ..., and of type Real")
        if name in self.declared:
            raise self._refused(frame.at, f"{name} is declared twice")
        self.declared[name] = int(name[2:])

    # --- the question ---

    def _count(self, kind: str) -> int:
        """Return how many inputs or outputs there are; they must be numbered from 0, without gaps."""
        numbers = {number for name, number in self.declared.items() if name[0] == kind}
        if not numbers:
            raise Refused(f"no {kind}_0 is declared")
        missing = min(set(range(len(numbers) + 1)) - numbers)
        if missing < len(numbers):
            raise Refused(f"{kind}_{max(numbers)} is declared, but {kind}_{missing} is not")
        return len(numbers)

    def _question(self) -> Question:
        """Combine the assertions: bounds that all disjuncts have are put together only once."""
        inputs, outputs = self._count("X"), self._count("Y")
        common: list[Bound] = []
        parts: list[Formula] = []
        for formula in self.formulas:
            only, *others = formula.alternatives
            if others:
                parts.append(formula)
            else:
                common.extend(atom for atom in only if isinstance(atom, Bound))
                parts.append(Formula((tuple(atom for atom in only if not isinstance(atom, Bound)),)))
        everything = Frame(0, "and", [part for part in parts if _length(part)] or [Formula(((),))])
        alternatives = self._and(everything).alternatives
        box = _narrowed(((None,) * inputs, (None,) * inputs), common)
        shared: _Sides | None = None  # the box of all disjuncts that have no bounds of their own
        disjuncts = []
        for atoms in alternatives:
            bounds = [atom for atom in atoms if isinstance(atom, Bound)]
            if bounds:
                self._spend(everything, inputs)
                sides = _complete(_narrowed(box, bounds))
            else:
                sides = shared = shared or _complete(box)
            balls = [atom for atom in atoms if isinstance(atom, Ball)]
            if len(balls) > 1:
                raise Refused("one of the disjuncts has several balls, which is not supported")
            rows = tuple(atom for atom in atoms if isinstance(atom, Row))
            disjuncts.append(Disjunct(*sides, rows, balls[0] if balls else None))
        return Question(inputs, outputs, tuple(disjuncts))


_Side = tuple[Bound | None, ...]
_Box = tuple[_Side, _Side]  # as far as it is known
_Sides = tuple[tuple[Fraction, ...], tuple[Fraction, ...], tuple[frozenset[int], frozenset[int]]]

_MEANINGS: dict[str, Callable[[_Reader, Frame], Sum | Formula]] = {
    "+": _Reader._plus,
    "-": _Reader._minus,
    "*": _Reader._product,
    "/": _Reader._quotient,
    "<=": _Reader._comparison,
    ">=": _Reader._comparison,
    "<": _Reader._comparison,
    ">": _Reader._comparison,
    "=": _Reader._comparison,
    "and": _Reader._and,
    "or": _Reader._or,
}


def _length(formula: Formula) -> int:
    """Count the inequalities in all alternatives."""
    return sum(len(alternative) for alternative in formula.alternatives)


def _narrowed(box: _Box, bounds: Sequence[Bound]) -> _Box:
    """Return a box that meets bounds, too."""
    lower, upper = list(box[0]), list(box[1])
    for bound in bounds:
        side = upper if bound.upper else lower
        old = side[bound.input]
        if old is None or bound.tighter(old):
            side[bound.input] = bound
    return tuple(lower), tuple(upper)


def _complete(box: _Box) -> _Sides:
    """Return a box in which no bound is missing."""
    for side, name in zip(box, ("lower", "upper"), strict=True):
        if None in side:
            raise Refused(f"X_{side.index(None)} has no {name} bound in one of the disjuncts: give every input both")
    lower, upper = ([bound for bound in side if bound is not None] for side in box)
    opened = [frozenset(bound.input for bound in side if bound.strict) for side in (lower, upper)]
    return tuple(bound.value for bound in lower), tuple(bound.value for bound in upper), (opened[0], opened[1])
