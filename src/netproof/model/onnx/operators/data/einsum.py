"""The converter of Einsum: of one value it is a selection and a sum, of a value and a constant a matrix product.

The variable operand x and the constant k are brought to the form (batch, free, summed) by (batch, summed, free), where
each is the axes of one kind; so Einsum is what MatMul is.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence

import numpy as np

from netproof.model.moves import Transpose
from netproof.model.onnx.context import Context, Ref, Value, converts
from netproof.model.onnx.operators.arithmetic import matmul_by_constant, reduce_axes
from netproof.model.onnx.operators.data.rearrange import pick
from netproof.model.onnx.operators.moves import reshape
from netproof.model.onnx.operators.products import matrix_product
from netproof.model.origin.constant import Constant


@converts("Einsum")
def _einsum(c: Context) -> Value:
    """Multiply by a constant of one operand, exactly; of two variables, sum relaxed products x·y."""
    values = [c.value(i) for i in range(len(c.inputs))]
    terms, result = _terms(c, values)
    parts = [_diagonal(c, value, term) for value, term in zip(values, terms, strict=True)]
    if len(parts) > 2:
        c.refuse(f"{len(parts)} operands", "write it as Einsum nodes of two operands each")
    if len(parts) == 1:
        return _arranged(c, *_summed(c, *parts[0], keep=set(result)), result)
    (left, one), (right, other) = parts
    left, one = _summed(c, left, one, keep=set(result) | set(other))
    right, other = _summed(c, right, other, keep=set(result) | set(one))
    return _product(c, (left, one), (right, other), result)


def _terms(c: Context, values: Sequence[Value]) -> tuple[list[str], str]:
    """Return the letters of each operand and of the result, with letters for an ellipsis too."""
    equation = str(c.attr("equation", "")).replace(" ", "")
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(values):
        c.refuse(f"equation {equation!r} does not have {len(values)} operands", "check it with onnx.checker")
    spare = [letter for letter in string.ascii_letters if letter not in equation]
    extra = [len(v.shape) - len(t.replace("...", "")) if "..." in t else 0 for v, t in zip(values, terms, strict=True)]
    if min(extra) < 0 or max(extra) > len(spare):
        c.refuse(f"equation {equation!r} does not fit its operands", "check it with onnx.checker")
    dots = "".join(spare[: max(extra)])
    full = [t.replace("...", dots[len(dots) - n :]) for t, n in zip(terms, extra, strict=True)]
    if not arrow:
        letters = "".join(full)
        result = dots + "".join(sorted(one for one in set(letters) - set(dots) if letters.count(one) == 1))
    result = result.replace("...", dots)
    known = set("".join(full))
    fits = all(len(t) == len(v.shape) and t.isalpha() for t, v in zip(full, values, strict=True) if t or v.shape)
    if not fits or not set(result) <= known or len(set(result)) != len(result):
        c.refuse(f"equation {equation!r} does not fit its operands", "check it with onnx.checker")
    return full, result


def _diagonal(c: Context, value: Value, letters: str) -> tuple[Value, str]:
    """Take the diagonal along axes of one letter."""
    once = "".join(dict.fromkeys(letters))
    if once == letters:
        return value, letters
    sizes = {letter: {value.shape[i] for i, own in enumerate(letters) if own == letter} for letter in once}
    if any(len(found) > 1 for found in sizes.values()):
        c.refuse("axes of one letter differ in size", "check it with onnx.checker")
    grid = np.indices([min(sizes[letter]) for letter in once])
    index = np.ravel_multi_index([grid[once.index(letter)] for letter in letters], value.shape)
    return pick(c, [value], index), once


def _summed(c: Context, value: Value, letters: str, keep: set[str]) -> tuple[Value, str]:
    """Add up along the axes whose letters appear nowhere else."""
    axes = tuple(i for i, letter in enumerate(letters) if letter not in keep)
    if not axes:
        return value, letters
    if isinstance(value, Constant):
        if any(value.shape[axis] != 1 for axis in axes):
            c.refuse("a constant operand is summed by itself", "fold constants when exporting")
        shape = tuple(size for i, size in enumerate(value.shape) if i not in axes)
        value = value.moved(lambda entries: entries.reshape(shape))
    else:
        value = reduce_axes(c, value, axes, mean=False, keep=False)
    return value, "".join(letter for letter in letters if letter in keep)


def _product(c: Context, left: tuple[Value, str], right: tuple[Value, str], result: str) -> Value:
    (a, one), (b, other) = left, right
    sizes: dict[str, int] = {}
    for value, letters in (left, right):
        for letter, size in zip(letters, value.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                c.refuse(f"its axes {letter!r} differ in size", "give the operands the same sizes")
    shared = [letter for letter in one if letter in other]
    batch, inner = [s for s in shared if s in result], [s for s in shared if s not in result]
    rows, columns = [s for s in one if s not in other], [s for s in other if s not in one]

    def count(letters: Sequence[str]) -> int:
        return math.prod(sizes[letter] for letter in letters)

    a = _shaped(c, a, one, [*batch, *rows, *inner], (count(batch), count(rows), count(inner)))
    b = _shaped(c, b, other, [*batch, *inner, *columns], (count(batch), count(inner), count(columns)))
    if isinstance(a, Ref) and isinstance(b, Ref):
        y = matrix_product(c, a, b)
    else:
        found = matmul_by_constant(c, a, b)
        assert isinstance(found, Ref)
        y = found
    found_letters = "".join([*batch, *rows, *columns])
    y = reshape(c, y, [sizes[letter] for letter in found_letters])
    return _arranged(c, y, found_letters, result)


def _shaped(c: Context, value: Value, letters: str, order: Sequence[str], shape: tuple[int, ...]) -> Value:
    """Bring axes in an order and join those of one kind."""
    perm = tuple(letters.index(letter) for letter in order)
    if isinstance(value, Constant):
        return value.moved(lambda entries: entries.transpose(perm).reshape(shape))
    return reshape(c, c.emit(Transpose(perm), value), shape)


def _arranged(c: Context, value: Value, letters: str, result: str) -> Value:
    perm = tuple(letters.index(letter) for letter in result)
    if isinstance(value, Constant):
        return value.moved(lambda entries: entries.transpose(perm))
    return value if perm == tuple(range(len(perm))) else c.emit(Transpose(perm), value)
