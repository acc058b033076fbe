"""A certificate as APTP, the proof format of APTPchecker: one file for each disjunct whose proof splits ReLUs.

APTP says a box of the input, one row of the outputs, and a disjunction of conjunctions of `(>= N_i 0)` and `(< N_i 0)`,
the leaves of a tree. Its checker shows with a solver that the conjunctions cover all signs, and that on each of them
the row cannot hold: bounds of neurons, slopes and multipliers are not said, so they are left out here.

N_i is a neuron. All ReLUs of the network are counted from 1, one operator Relu after the other in the order of the
model's file, and in C order within each.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from netproof.errors import UsageError
from npcheck.bound import Form, Ranges
from npcheck.check import check
from npcheck.errors import Invalid, Refused
from npcheck.files import read
from npcheck.network import Affine, Input, Network, Relu
from npcheck.onnx_file import read_network
from npcheck.onnx_messages import read_graph
from npcheck.region import read_bounds
from npcheck.statement import Array, Region, Rows, state
from npcheck.stream import Stream, read_header
from npcheck.tree import Batch, Packed, Part, Walk, bounds_of, most_at_once
from npcheck.vnnlib_file import Disjunct, Question, Row, read_question
from npcheck.work import Here

BENT = {"Abs", "Clip", "LeakyRelu", "Max", "MaxPool", "Min", "PRelu"}  # written with ReLUs that APTP does not count

LISTED = 10  # disjuncts in a line


@dataclass(frozen=True)
class Exported:
    """What was written, and what was not."""

    files: tuple[Path, ...]
    notes: tuple[str, ...]  # which disjuncts have no file, and why


def export(certificate: Path, model: Path, spec: Path, folder: Path) -> Exported:
    """Check a certificate, then write its proofs by splits of ReLUs; UsageError where there is none."""
    try:
        check(certificate, model, spec)
        network, _ = read(model, read_network)
        question, _ = read(spec, read_question)
        graph, _ = read(model, read_graph)
    except Invalid as fault:
        raise UsageError(f"npcheck does not accept it: {fault}", file=str(certificate)) from None
    except Refused as reason:
        raise UsageError(str(reason)) from None
    bent = sorted({node.op for node in graph.nodes} & BENT)
    if bent or not all(isinstance(node.op, Input | Affine | Relu) for node in network.nodes):
        what = f"{bent[0]} is none" if bent else "not all of the network's are"
        raise UsageError(f"APTP splits ReLUs alone: {what}", file=str(model))
    exporter = _Exporter(network, question, folder / spec.name.removesuffix(".gz").removesuffix(".vnnlib"))
    with certificate.open("rb") as file, np.errstate(all="ignore"):
        read_header(file)
        stream = Stream(file)
        for region in state(question).regions:
            exporter.take(region, stream)
    if not exporter.files:
        raise UsageError(
            f"nothing of it can be said as APTP: {exporter.notes[0]}"
            if exporter.notes
            else "it proves nothing by splits",
            file=str(certificate),
        )
    return Exported(tuple(exporter.files), tuple(exporter.notes))


class _Exporter:
    """Goes through the body of a certificate."""

    def __init__(self, network: Network, question: Question, stem: Path) -> None:
        self._network, self._question, self._stem = network, question, stem
        self._names = relu_numbers(network)
        self.files: list[Path] = []
        self._missing: dict[str, list[int]] = {}  # disjuncts without a file, by why

    def take(self, region: Region, stream: Stream) -> None:
        """Write what can be said of a region's disjuncts."""
        ranges, packed = read_bounds(self._network, region, stream, Here(self._network, lambda what, leaves: None))
        names = _names_of(packed, self._names)
        for target, rows in zip(region.targets, region.rows, strict=True):
            walk = Walk(
                stream,
                packed,
                len(rows.right),
                (region.lower, region.upper),
                most_at_once(self._network),
                _unclipped,
            )
            signs = _signs(walk, region, partial(self._without_ties, packed, ranges, rows))
            why = self._written(target, self._question.disjuncts[target], names, signs)
            for _ in signs:  # what is left of the tree
                pass
            if why:
                self._missing.setdefault(why, []).append(target)

    def _without_ties(self, packed: Packed, ranges: Ranges, rows: Rows, batch: Batch) -> bool:
        """Say whether leaves hold as if no row were strict."""
        if not any(row.strict for row in rows.exact):
            return True
        form_of = partial(_of_rows, rows, len(self._network.nodes) - 1)
        return bool((bounds_of(self._network, packed, batch, ranges, form_of) > 0.0).all())

    @property
    def notes(self) -> list[str]:
        """Return a line for each reason why there is no file."""
        return [f"{_named(targets)} {why}" for why, targets in self._missing.items()]

    def _written(
        self, target: int, disjunct: Disjunct, names: NDArray[np.int64], signs: Iterator[NDArray[np.int8] | str]
    ) -> str:
        """Write a file; return why not."""
        if disjunct.ball is not None:
            return "with a ball, and APTP has boxes"
        if len(disjunct.rows) != 1:
            return f"with {len(disjunct.rows)} rows, and APTP has one"
        try:
            row = _row(disjunct.rows[0])
            box = [(_decimal(low), _decimal(high)) for low, high in zip(disjunct.lower, disjunct.upper, strict=True)]
        except _UnsayableError as reason:
            return str(reason)
        path = self._stem.with_name(f"{self._stem.name}-{target}.aptp")
        partial = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("w", encoding="ascii") as file:
                why = self._leaves(file, names, signs, box, row)
            if not why:
                partial.replace(path)
                self.files.append(path)
            return why
        except OSError as error:
            raise UsageError(f"it cannot be written: {error.strerror or error}", file=str(path)) from None
        finally:
            partial.unlink(missing_ok=True)

    def _leaves(
        self,
        file: TextIO,
        names: NDArray[np.int64],
        signs: Iterator[NDArray[np.int8] | str],
        box: list[tuple[str, str]],
        row: str,
    ) -> str:
        """Write the tree first, as it comes, and then what it is about: a declaration may come last."""
        file.write("; Hidden constraints\n(assert (or\n")
        split: set[int] = set()
        for leaf in signs:
            if isinstance(leaf, str):
                return leaf
            (places,) = leaf.nonzero()
            if len(places) == 0:
                return "without a split, and APTP needs one"
            literals = [f"({'>=' if leaf[at] > 0 else '<'} N_{names[at]} 0)" for at in places.tolist()]
            split.update(names[places].tolist())
            file.write(f"  (and {' '.join(literals)})\n")
        file.write("))\n\n; Hidden variables\n")
        file.writelines(f"(declare-pwl N_{name} ReLU)\n" for name in sorted(split))
        file.write("\n; Input variables and constraints\n")
        for at, (low, high) in enumerate(box):
            file.write(f"(declare-const X_{at} Real)\n(assert (>= X_{at} {low}))\n(assert (<= X_{at} {high}))\n")
        file.write("\n; Output variables and constraints\n")
        file.writelines(f"(declare-const Y_{at} Real)\n" for at in range(self._question.outputs))
        file.write(f"(assert {row})\n")
        return ""


def relu_numbers(network: Network) -> dict[int, int]:
    """Return by node that a ReLU reads the number of its first neuron: that of the first ReLU that reads it."""
    numbers: dict[int, int] = {}
    count = 1
    for node in network.nodes:
        if isinstance(node.op, Relu):
            numbers.setdefault(node.inputs[0], count)
            count += node.size
    return numbers


def _names_of(packed: Packed, numbers: dict[int, int]) -> NDArray[np.int64]:
    """Return the numbers of all packed neurons."""
    each = [numbers[node] + places for node, places in zip(packed.nodes, packed.neurons, strict=True)]
    return np.concatenate([np.zeros(0, dtype=np.int64), *each])


def _unclipped(part: Part) -> tuple[Array, Array]:
    """Leave a box as it is: a violation is never clipped off, so what holds on the smaller box holds on the larger."""
    return part.lower, part.upper


def _of_rows(rows: Rows, output: int, weights: Array, known: Ranges) -> Form:
    return Form.of_rows(rows, weights, output, known)


def _signs(walk: Walk, region: Region, hold: Callable[[Batch], bool]) -> Iterator[NDArray[np.int8] | str]:
    """Go through the signs of the leaves, or why APTP cannot say one; hold: whether those of a batch need no tie."""
    for batch in walk.batches():
        for leaf in batch.leaves:
            whole = np.array_equal(leaf.lower, region.lower) and np.array_equal(leaf.upper, region.upper)
            yield leaf.signs if whole else "with splits of inputs, and APTP splits ReLUs alone"
        if not hold(batch):
            yield "with a strict row that may hold by a tie, and APTP has none"


def _named(targets: list[int]) -> str:
    some = ", ".join(map(str, targets[:LISTED])) + (f" and {len(targets) - LISTED} more" if targets[LISTED:] else "")
    return f"disjunct{'s' if targets[1:] else ''} {some}"


class _UnsayableError(Exception):
    """APTP has no words for it."""


def _row(row: Row) -> str:
    """Return a row as APTP says it: Y <= number, Y >= number or Y <= Y."""
    factors = list(row.outputs.values())
    if len(factors) == 2 and not row.inputs and not row.right and factors[0] == -factors[1]:
        first, second = row.outputs if factors[0] > 0 else reversed(row.outputs)
        return f"(<= Y_{first} Y_{second})"
    if len(factors) != 1 or row.inputs:
        raise _UnsayableError("with a row that is neither of one output and a number nor Y_i <= Y_j")
    ((output, factor),) = row.outputs.items()
    return f"({'<=' if factor > 0 else '>='} Y_{output} {_decimal(row.right / factor)})"


def _decimal(number: Fraction) -> str:
    """Return a number in decimals, exactly."""
    twos, fives, rest = 0, 0, number.denominator
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest != 1:
        raise _UnsayableError("with a number that no decimal is equal to")
    places = max(twos, fives, 1)
    digits = str(abs(number.numerator) * 10**places // number.denominator).rjust(places + 1, "0")
    return f"{'-' if number < 0 else ''}{digits[:-places]}.{digits[-places:]}"
