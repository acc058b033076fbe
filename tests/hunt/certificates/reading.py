"""Models and specifications read back from their bytes, by nothing of netproof or npcheck, to know if they are true."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import onnx
from onnx import numpy_helper

from hunt.network import OPERATORS, Layer, Network
from hunt.question import Disjunct, InputSet, Question, Row

KINDS = {operator: kind for kind, operator in OPERATORS.items()}
PAIRS = ("add", "sub", "concat")
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?")
ATTRIBUTES = {
    "gemm": {"transB": 1},
    "conv": {"pads": None, "strides": None, "group": None},
    "pool": {"kernel_shape": None, "strides": None},
    "peak": {"kernel_shape": None, "strides": None, "pads": None},
    "norm": {"epsilon": None},
    "leaky": {"alpha": None},
    "concat": {"axis": 1},
}


class UnreadableError(Exception):
    """Something that the generators never write."""


def read_model(data: bytes) -> Network:
    """A model as the generators write them, whatever its numbers are."""
    try:
        model = onnx.load_model_from_string(data)
        onnx.checker.check_model(model, full_check=True)
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    except Exception as error:  # protobuf, onnx and its C++ each have errors of their own
        raise UnreadableError(str(error)) from None
    shapes = {
        info.name: tuple(d.dim_value for d in info.type.tensor_type.shape.dim)
        for info in [*inferred.input, *inferred.value_info, *inferred.output]
    }
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in inferred.initializer}
    inputs = [info.name for info in inferred.input if info.name not in constants]
    if len(inputs) != 1 or len(inferred.output) != 1:
        raise UnreadableError("not one input and one output")
    layers, places = [Layer("input", (), _known(shapes, inputs[0]))], {inputs[0]: 0}
    for node in inferred.node:
        layers.append(_layer(node, places, constants, shapes))
        places[node.output[0]] = len(layers) - 1
    if inferred.output[0].name not in places:
        raise UnreadableError("an output that no node gives")
    last = places[inferred.output[0].name]
    return tuple(layers[: last + 1])


def _known(shapes: dict[str, tuple[int, ...]], name: str) -> tuple[int, ...]:
    if name not in shapes or 0 in shapes[name]:
        raise UnreadableError(f"{name} has no known shape")
    return shapes[name]


def _layer(
    node: onnx.NodeProto, places: dict[str, int], constants: dict[str, np.ndarray], shapes: dict[str, tuple[int, ...]]
) -> Layer:
    kind = KINDS.get(node.op_type, "")
    known, attributes = ATTRIBUTES.get(kind, {}), {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    if not kind or node.domain or len(node.output) != 1 or attributes.keys() - known.keys():
        raise UnreadableError(f"{node.op_type} with {sorted(attributes)}")
    if any(name not in attributes for name in known) or any(
        want is not None and attributes[name] != want for name, want in known.items()
    ):
        raise UnreadableError(f"{node.op_type} with {attributes}")
    inputs = tuple(places[name] for name in node.input if name in places)
    arrays = tuple(constants[name] for name in node.input if name in constants)
    first = [name in places for name in node.input]
    if len(inputs) + len(arrays) != len(node.input) or first != sorted(first, reverse=True):
        raise UnreadableError(f"{node.op_type} of {list(node.input)}")
    if kind == "reshape":
        arrays = ()
    if any(array.dtype != np.float32 for array in arrays):
        raise UnreadableError("a constant that is no float32")
    wanted = {"gemm": (1, 2), "conv": (1, 2), "norm": (1, 4), "clip": (1, 2)}.get(kind, (2 if kind in PAIRS else 1, 0))
    if (len(inputs), len(arrays)) != wanted:
        raise UnreadableError(f"{node.op_type} of {list(node.input)}")
    return Layer(kind, inputs, _known(shapes, node.output[0]), arrays, attributes)


def read_spec(text: str, network: Network, direction: Sequence[int]) -> Question:
    """A specification of the forms that the generators write."""
    tokens = "\n".join(line.split(";")[0] for line in text.split("\n")).replace("(", " ( ").replace(")", " ) ").split()
    try:
        expressions, declared = _parsed(tokens), set[str]()
        formula = []
        for head, *operands in expressions:
            if head == "declare-const" and len(operands) == 2 and operands[1] == "Real":
                declared.add(operands[0])
            elif head == "assert" and len(operands) == 1:
                formula.append(operands[0])
            else:
                raise UnreadableError(f"{head}")
        conjunctions = _together([_alternatives(part, declared) for part in formula])
        if declared != {f"X_{i}" for i in range(len(direction))} | {f"Y_{i}" for i in range(network[-1].size)}:
            raise UnreadableError("other variables than the network's")
        disjuncts = [_disjunct(atoms, len(direction)) for atoms in conjunctions]
    except UnreadableError:
        raise
    except Exception as error:  # a text that nothing can be made of
        raise UnreadableError(str(error)) from None
    return Question(network, tuple(direction), tuple(d for d in disjuncts if d is not None))


Atom = tuple[dict[str, Fraction], bool]  # Σ factor·name <= 0, or < 0; the constant is named 1


def _parsed(tokens: list[str]) -> list:
    stack: list[list] = [[]]
    for token in tokens:
        if token == "(":
            stack.append([])
        elif token == ")":
            inner = stack.pop()
            stack[-1].append(inner)
        else:
            stack[-1].append(token)
    if len(stack) != 1:
        raise UnreadableError("parentheses")
    return stack[0]


def _together(formulas: list[list[list[Atom]]]) -> list[list[Atom]]:
    return [[atom for part in parts for atom in part] for parts in product(*formulas)]


def _alternatives(part: list, declared: set[str]) -> list[list[Atom]]:
    head, *operands = part
    if head == "or":
        return [one for operand in operands for one in _alternatives(operand, declared)]
    if head == "and":
        return _together([_alternatives(operand, declared) for operand in operands])
    if head not in ("<=", "<", ">=", ">") or len(operands) != 2:
        raise UnreadableError(str(head))
    left, right = (_sum(operand, declared) for operand in operands)
    sign = 1 if head[0] == "<" else -1
    names = left.keys() | right.keys()
    return [[({n: sign * (left.get(n, Fraction(0)) - right.get(n, Fraction(0))) for n in names}, len(head) == 1)]]


def _sum(part: str | list, declared: set[str]) -> dict[str, Fraction]:
    if isinstance(part, str):
        if part in declared:
            return {part: Fraction(1)}
        if not NUMBER.fullmatch(part):
            raise UnreadableError(part)
        return {"1": Fraction(part)}
    head, *operands = part
    sums = [_sum(operand, declared) for operand in operands]
    if head == "*":
        variables = [s for s in sums if s.keys() - {"1"}]
        factor = math.prod((s["1"] for s in sums if not s.keys() - {"1"}), start=Fraction(1))
        (only,) = variables or [{"1": Fraction(1)}]
        return {name: factor * value for name, value in only.items()}
    if head == "/" and len(sums) == 2 and sums[1].keys() == {"1"} and sums[1]["1"]:
        return {name: value / sums[1]["1"] for name, value in sums[0].items()}
    if head not in ("+", "-") or not sums:
        raise UnreadableError(str(head))
    signs = [1] * len(sums) if head == "+" else [1 if len(sums) > 1 else -1, *[-1] * (len(sums) - 1)]
    names = {name for s in sums for name in s}
    return {
        name: sum((g * s.get(name, Fraction(0)) for g, s in zip(signs, sums, strict=True)), Fraction(0))
        for name in names
    }


def _disjunct(atoms: list[Atom], inputs: int) -> Disjunct | None:
    """Bounds of single inputs make the box, all else is a row; None where no x is in the box, as numbers are."""
    lower: list[Fraction | None] = [None] * inputs
    upper: list[Fraction | None] = [None] * inputs
    rows = []
    for factors, strict in atoms:
        terms = {name: factor for name, factor in factors.items() if factor and name != "1"}
        right = -factors.get("1", Fraction(0))
        ((name, factor),) = terms.items() if len(terms) == 1 else (("", Fraction(0)),)
        if not name.startswith("X"):
            y, x = ({int(n[2:]): c for n, c in terms.items() if n[0] == kind} for kind in "YX")
            rows.append(Row(y, right, strict, x))
            continue
        at, end = int(name[2:]), right / factor
        side, better = (upper, min) if factor > 0 else (lower, max)
        old = side[at]
        side[at] = end if old is None else better(old, end)
    if any(end is None for end in lower + upper):
        raise UnreadableError("an input without bounds")
    low, high = ([end for end in side if end is not None] for side in (lower, upper))
    if any(a > b for a, b in zip(low, high, strict=True)):
        return None
    return Disjunct(InputSet(tuple(low), tuple(high)), tuple(rows))
