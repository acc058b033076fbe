"""What the operators of ONNX become: one function for each, listed by name at the end of this file.

A translation is exact: the nodes that it makes compute the same real function as the operator, except for entries of W
and b that must be computed (`folded`, see network.py). What is not understood in full is refused. Operators of `smooth`
are in onnx_smooth.py; products and quotients are here.

Nodes of the file that only rename or reshape make no node here. Operators that are pieces of ReLUs and affine parts
are expanded by these rules; their ReLU nodes come in the order in which they are written here, one rule after the
other in the order of the file's nodes, left to right:

    LeakyRelu, PRelu    s·x + (1 − s)·relu(x)
    Abs                 2·relu(x) − x
    Clip                lo + relu(x − lo) − relu(x − hi); with one bound only, max(x, lo) or min(x, hi)
    max(a, b)           b + relu(a − b)     where b is the constant, if one of them is
    min(a, b)           b − relu(b − a)     likewise
    Max, Min            of more than two: from left to right, max(max(a, b), c)
    MaxPool             along the height, then along the width: neighbours in pairs, then these in pairs, and so on;
                        an odd one stays last, pixels in the padding are left out
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from npcheck.errors import Refused
from npcheck.network import SINGLE, Array, Convolution, Linear, Scale, Windows, require_tame
from npcheck.onnx_call import Call, Value, Variable, as_floats, places
from npcheck.onnx_messages import BOOL, DOUBLE, FLOAT, INT32, INT64, MOST_AXES, TYPES, Constant
from npcheck.product import Product, Reciprocal, Square

MOST_EXACT = 1 << 16  # entries of a tensor of floats that are computed as fractions
MOST_PIXELS = 1 << 16  # of a window: each is one step of a convolution
MOST_STEPS = 1 << 10  # pixels of the windows of MaxPool that have different numbers of them: each makes a ReLU node
SMALLEST = 2.0**-200  # numbers other than 0 that are computed with are at least this large: nothing underflows


# --- numbers ---


def foldable(*constants: Array) -> None:
    """Refuse numbers so small that a product or quotient of them might underflow, and so lose its relative error."""
    for constant in constants:
        require_tame(constant)
        if bool(np.any((constant != 0) & (np.abs(constant) < SMALLEST))):
            raise Refused("a number below 2^-200 in absolute value would have to be computed with")


def common_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that shapes broadcast to."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise Refused(f"the shapes {' and '.join(map(str, shapes))} do not fit together") from None


def broadcast(call: Call, x: Value, shape: tuple[int, ...]) -> Value:
    """Repeat a value along axes, to a shape that it broadcasts to."""
    if common_shape(x.shape, shape) != shape:
        raise Refused(f"the shape {x.shape} does not broadcast to {shape}")
    call.builder.spend(shape)
    return call.view(x, lambda entries: np.broadcast_to(entries, shape))


def spread_out(call: Call, x: Variable, shape: tuple[int, ...]) -> Variable:
    """Repeat a value that depends on the input along axes."""
    result = broadcast(call, x, shape)
    assert isinstance(result, Variable)
    return result


def flat(call: Call, constant: Array, shape: tuple[int, ...]) -> Array:
    """Repeat a constant to a shape that it broadcasts to, as a vector."""
    result = broadcast(call, constant, shape)
    assert not isinstance(result, Variable)
    return np.array(result, dtype=np.float64).reshape(-1)


def axis_of(axis: int, rank: int) -> int:
    """Return an axis counted from the front; negative ones count from the end."""
    if not -rank <= axis < rank:
        raise Refused(f"there is no axis {axis} among {rank}")
    return axis % rank


def axes_of(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return several axes counted from the front, each once."""
    found = tuple(axis_of(axis, rank) for axis in axes)
    if len(set(found)) != len(found):
        raise Refused(f"an axis occurs twice in {tuple(axes)}")
    return found


# --- sums and products ---


def shifted(call: Call, x: Variable, constant: Array) -> Variable:
    """Return x + constant, of x's shape: zeros make no node, and a matrix or a convolution without b takes it as b."""
    bias = flat(call, constant, x.shape)
    if not bias.any():
        return x
    made = call.builder.nodes[x.place]
    if isinstance(made.op, Linear | Convolution) and made.op.bias is None and x.place not in call.builder.uncut:
        return call.again(made, made.op.plus(bias), x.shape)
    return call.emit(Scale(np.ones(x.size), bias=bias), [x], x.shape)


def less(call: Call, x: Variable, y: Variable | Array) -> Variable:
    """Return x − y, for values of one shape."""
    return call.sum(x, y, -1) if isinstance(y, Variable) else shifted(call, x, -y)


def more(call: Call, x: Variable, y: Variable | Array) -> Variable:
    """Return x + y, for values of one shape."""
    return call.sum(x, y) if isinstance(y, Variable) else shifted(call, x, y)


def _operand(value: Value) -> Variable | Array:
    return value if isinstance(value, Variable) else as_floats(value)


def _add(call: Call) -> Value:
    return _added(call, 1)


def _sub(call: Call) -> Value:
    return _added(call, -1)


def _added(call: Call, sign: int) -> Value:
    """Translate a + b or a − b."""
    call.at_most(2)
    a, b = call.value(0), call.value(1)
    if not isinstance(a, Variable) and not isinstance(b, Variable):
        return arithmetic(call, a, b)
    left, right = _operand(a), _operand(b)
    shape = common_shape(a.shape, b.shape)
    if isinstance(left, Variable):
        if isinstance(right, Variable):
            right = spread_out(call, right, shape)
        else:
            right = flat(call, right, shape).reshape(shape)
        left = spread_out(call, left, shape)
        return more(call, left, right) if sign > 0 else less(call, left, right)
    assert isinstance(right, Variable)
    right = spread_out(call, right, shape)
    if sign > 0:
        return shifted(call, right, left)
    return call.emit(Scale(-np.ones(right.size), bias=flat(call, left, shape)), [right], shape)


def _mul(call: Call) -> Value:
    """Translate a product."""
    call.at_most(2)
    a, b = call.value(0), call.value(1)
    if isinstance(a, Variable) and isinstance(b, Variable):
        shape = common_shape(a.shape, b.shape)
        return multiplied(call, spread_out(call, a, shape), spread_out(call, b, shape))
    if isinstance(a, Variable):
        a, b = b, a
    assert not isinstance(a, Variable)
    if not isinstance(b, Variable):
        return arithmetic(call, a, b)
    shape = common_shape(a.shape, b.shape)
    factor = flat(call, as_floats(a), shape)
    return call.emit(Scale(factor), [spread_out(call, b, shape)], shape)


def multiplied(call: Call, a: Variable, b: Variable) -> Variable:
    """Return a·b, for values of one shape."""
    if a.place == b.place:
        return call.emit(Square(), [a], a.shape)
    return call.emit(Product(), [a, b], a.shape)


def _div(call: Call) -> Value:
    """Translate a quotient: by a value that depends on the input as a·(1/b)."""
    call.at_most(2)
    a, b = call.value(0), call.value(1)
    if isinstance(b, Variable):
        inverse = call.emit(Reciprocal(), [b], b.shape)
        shape = common_shape(a.shape, b.shape)
        if isinstance(a, Variable):
            return multiplied(call, spread_out(call, a, shape), spread_out(call, inverse, shape))
        return call.emit(Scale(flat(call, as_floats(a), shape)), [spread_out(call, inverse, shape)], shape)
    if not isinstance(a, Variable):
        return arithmetic(call, a, b)
    divisor = as_floats(b)
    foldable(divisor)
    if not divisor.all():
        raise Refused("it divides by 0")
    shape = common_shape(a.shape, b.shape)
    # One rounding: relative error 2^-53.
    factor = 1.0 / flat(call, divisor, shape)
    return call.emit(Scale(factor, folded=True), [spread_out(call, a, shape)], shape)


def _neg(call: Call) -> Value:
    call.at_most(1)
    x = call.value(0)
    if not isinstance(x, Variable):
        return arithmetic(call, np.zeros((), dtype=x.dtype), x)
    return call.emit(Scale(-np.ones(x.size)), [x], x.shape)


def arithmetic(call: Call, a: Constant, b: Constant) -> Constant:
    """Compute with two constants: integers, and floats as far as the result is exact in float64."""
    shape = common_shape(a.shape, b.shape)
    call.builder.spend(shape)
    if a.dtype != b.dtype or a.dtype == np.bool_:
        raise Refused("it computes with constants of types that are not supported")
    left, right = (np.broadcast_to(x, shape).reshape(-1) for x in (a, b))
    if left.size > MOST_EXACT:
        raise Refused(f"it computes with constants of more than {MOST_EXACT} entries: fold them in the file")
    if a.dtype == np.float64:
        for x in (left, right):
            require_tame(np.asarray(x, dtype=np.float64))
    pairs = zip(map(Fraction, left.tolist()), map(Fraction, right.tolist()), strict=True)
    op = "Sub" if call.node.op == "Neg" else call.node.op
    results = [_exact(op, x, y, a.dtype == np.int64) for x, y in pairs]
    if a.dtype == np.int64:
        if any(not -(2**63) <= entry < 2**63 for entry in results):
            raise Refused("an integer that it computes has more than 64 bits")
        return np.array([int(entry) for entry in results], dtype=np.int64).reshape(shape)
    floats = [float(entry) for entry in results]
    if any(Fraction(x) != y for x, y in zip(floats, results, strict=True)):
        raise Refused("it computes with constants, and the result is not exact in float64: fold it in the file")
    return np.array(floats, dtype=np.float64).reshape(shape)


def _exact(op: str, x: Fraction, y: Fraction, whole: bool) -> Fraction:
    """Compute one entry exactly; integers are divided as in ONNX, towards 0."""
    if op == "Add":
        return x + y
    if op == "Sub":
        return x - y
    if op == "Mul":
        return x * y
    if op != "Div" or y == 0:
        raise Refused("it divides a constant by 0")
    return Fraction(int(x / y)) if whole else x / y


def rows(call: Call, x: Variable, weight: Array, bias: Array | None, folded: bool = False) -> Variable:
    """Multiply the last axis of x with a matrix (m, n); the bias is one of all results."""
    if not x.shape or x.shape[-1] != weight.shape[1]:
        raise Refused(f"a value of shape {x.shape} does not fit a matrix of {weight.shape[1]} columns")
    copies = x.size // x.shape[-1]
    shape = (*x.shape[:-1], weight.shape[0])
    call.builder.spend(shape)
    if not math.prod(shape):
        raise Refused("a value without entries is not supported")
    return call.emit(Linear(weight, copies=copies, bias=bias, folded=folded), [x], shape)


def _swapped(entries: Constant) -> Constant:
    return np.swapaxes(entries, -1, -2)


def _matmul(call: Call) -> Value:
    """Translate a product of matrices."""
    call.at_most(2)
    a, b = call.value(0), call.value(1)
    if isinstance(a, Variable) and isinstance(b, Variable):
        return _matrices(call, a, b)
    if not isinstance(a, Variable) and not isinstance(b, Variable):
        a = call.lifted(a)  # its entries may not be floats: so they are bounded, as those of a value are
    if not a.shape or not b.shape:
        raise Refused("a product with a single number is not one of matrices")
    # As in numpy, a vector is a row on the left and a column on the right, and that axis is dropped in the end.
    drop = ([-2] if len(a.shape) == 1 else []) + ([-1] if len(b.shape) == 1 else [])
    if len(a.shape) == 1:
        a = call.view(a, lambda entries: entries[None, :])
    if len(b.shape) == 1:
        b = call.view(b, lambda entries: entries[:, None])
    rank = max(len(a.shape), len(b.shape))
    if isinstance(a, Variable):
        assert not isinstance(b, Variable)
        result = rows(call, a, np.ascontiguousarray(_matrix(b).T), None)
    else:
        assert isinstance(b, Variable)
        result = call.look(rows(call, call.look(b, _swapped), _matrix(a), None), _swapped)
    shape = [1] * (rank - len(result.shape)) + list(result.shape)
    for axis in drop:
        shape[axis] = -1  # marks an axis of length 1 that is dropped
    return Variable(result.place, tuple(length for length in shape if length != -1))


def _matrices(call: Call, a: Variable, b: Variable) -> Variable:
    """Translate a product of two matrices that depend on the input: entries side by side, their products, and sums."""
    if len(a.shape) < 2 or len(b.shape) < 2 or a.shape[-1] != b.shape[-2]:
        raise Refused(f"a product of matrices of shapes {a.shape} and {b.shape} is not supported")
    stacks = common_shape(a.shape[:-2], b.shape[:-2])
    shape = (*stacks, a.shape[-2], b.shape[-1], a.shape[-1])  # the entries that are summed come last
    call.builder.spend(shape)
    left = call.look(a, lambda entries: np.broadcast_to(entries[..., :, None, :], shape))
    right = call.look(b, lambda entries: np.broadcast_to(_swapped(entries)[..., None, :, :], shape))
    total = rows(call, multiplied(call, left, right), np.ones((1, shape[-1])), None)
    return Variable(total.place, shape[:-1])


def _matrix(constant: Constant) -> Array:
    """Return a constant as one matrix: it may have axes before, of length 1."""
    floats = as_floats(constant)
    if math.prod(floats.shape[:-2]) != 1:
        raise Refused(f"a constant of shape {floats.shape} is not one matrix")
    return floats.reshape(floats.shape[-2:])


def _gemm(call: Call) -> Value:
    """Translate alpha·A·B + beta·C, where A or B is the value, and the others are constants."""
    call.at_most(3)
    a, b = call.value(0), call.value(1)
    alpha, beta = call.number("alpha", 1.0), call.number("beta", 1.0)
    if len(a.shape) != 2 or len(b.shape) != 2 or isinstance(a, Variable) == isinstance(b, Variable):
        raise Refused("it is not a product of a value and a constant, both of two axes")
    if call.flag("transA"):
        a = call.view(a, _swapped)
    if call.flag("transB"):
        b = call.view(b, _swapped)
    shape = (a.shape[0], b.shape[1])
    # One rounding at most in an entry of W, and one in an entry of b: relative error 2^-53.
    bias = None if not call.has(2) else _times(beta, flat(call, call.floats(2), shape)).reshape(shape)
    folded = alpha != 1.0 or beta != 1.0
    if isinstance(a, Variable):
        assert not isinstance(b, Variable)
        weight = np.ascontiguousarray(_times(alpha, as_floats(b)).T)
        return rows(call, a, weight, None if bias is None else bias.reshape(-1), folded)
    assert isinstance(b, Variable)
    weight = _times(alpha, as_floats(a))
    transposed = call.look(b, _swapped)
    return call.look(rows(call, transposed, weight, None if bias is None else bias.T.reshape(-1), folded), _swapped)


def _times(factor: float, numbers: Array) -> Array:
    """Multiply the numbers of the file; by 1, which is the rule, exactly."""
    if factor == 1.0:
        return numbers
    foldable(np.array([factor]), numbers)
    return factor * numbers


def _batch_normalization(call: Call) -> Value:
    """Translate scale·(x − mean)/sqrt(variance + epsilon) + beta, as factor·x + (beta − mean·factor)."""
    call.at_most(5)
    call.only("training_mode", 0)
    call.only("spatial", 1)
    call.ignore("momentum")
    if any(call.node.outputs[1:]):  # before opset 14 this is how the mode is told
        raise Refused("it has outputs of training mode")
    x = call.variable(0)
    epsilon = call.number("epsilon", 1e-5)
    scale, beta, mean, variance = (call.floats(i) for i in range(1, 5))
    if len(x.shape) < 2 or any(part.shape != (x.shape[1],) for part in (scale, beta, mean, variance)):
        raise Refused(f"its constants do not fit {x.shape}")
    foldable(scale, beta, mean, variance, np.array([epsilon]))
    if epsilon < 0 or bool((variance < 0).any()) or not (variance + epsilon).all():
        raise Refused("its variance or epsilon is negative, or both are 0")
    # Four roundings: of the sum of two numbers >= 0, the root (which halves the error before), the quotient. So the
    # relative error of the factor is below 4·2^-53. Nothing underflows: all numbers are at least 2^-200 or 0.
    factor = scale / np.sqrt(variance + epsilon)
    # The product and the difference add two more, all relative to |beta| + |mean·factor|, since these may cancel.
    bias = beta - mean * factor
    spread = np.abs(beta) + np.abs(mean * factor)
    column = (x.shape[1], *[1] * (len(x.shape) - 2))
    vectors = [flat(call, vector.reshape(column), x.shape) for vector in (factor, bias, spread)]
    return call.emit(Scale(vectors[0], bias=vectors[1], folded=True, spread=vectors[2]), [x], x.shape)


def _reduce_sum(call: Call) -> Value:
    return _reduced(call, since=13, mean=False)


def _reduce_mean(call: Call) -> Value:
    return _reduced(call, since=18, mean=True)


def _reduced(call: Call, since: int, mean: bool) -> Value:
    """Translate a sum or mean over axes; without axes it is over all of them."""
    call.at_most(1 if call.opset < since else 2)
    x = call.variable(0)
    listed = call.listed("axes", 1, since)
    keep, nothing = call.flag("keepdims", True), call.flag("noop_with_empty_axes")
    if not listed and nothing:
        return x
    return over_axes(call, x, axes_of(listed or range(len(x.shape)), len(x.shape)), keep, mean)


def over_axes(call: Call, x: Variable, axes: tuple[int, ...], keep: bool, mean: bool) -> Variable:
    """Return the sum or mean over axes: they are brought to the end, and a row of ones is applied."""
    others = tuple(axis for axis in range(len(x.shape)) if axis not in axes)
    count = math.prod(x.shape[axis] for axis in axes)
    together = call.look(x, lambda entries: np.transpose(entries, others + axes).reshape(-1, count))
    total = rows(call, together, np.ones((1, count)), None)
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape) if keep or i not in axes)
    result = Variable(total.place, shape)
    return divided(call, result, np.full(result.size, count, dtype=np.float64)) if mean else result


def divided(call: Call, x: Variable, counts: Array) -> Variable:
    """Divide each entry by a whole number."""
    # One rounding: relative error 2^-53.
    return call.emit(Scale(1.0 / counts, folded=True), [x], x.shape)


def _global_average_pool(call: Call) -> Value:
    call.at_most(1)
    x = call.variable(0)
    if len(x.shape) < 3:
        raise Refused(f"its input of shape {x.shape} is not an image")
    return over_axes(call, x, tuple(range(2, len(x.shape))), keep=True, mean=True)


# --- windows ---


def _image(call: Call, x: Variable) -> tuple[int, int]:
    """Return the height and width of an image (1, channels, height, width) or a row (1, channels, width)."""
    if len(x.shape) not in (3, 4) or x.shape[0] != 1:
        raise Refused(f"its input of shape {x.shape} is not one image of one or two axes")
    return (x.shape[2], x.shape[3]) if len(x.shape) == 4 else (1, x.shape[2])


def _windows(call: Call, x: Variable, kernel: Sequence[int] | None) -> Windows:
    """Read how windows move over an image: of two axes, where a row is an image of height 1."""
    image, rank = _image(call, x), len(x.shape) - 2
    given = call.integers("kernel_shape")
    kernel = given if kernel is None else tuple(kernel)
    if kernel is None or (given is not None and given != kernel):
        raise Refused("its kernel_shape is missing, or is not that of its weight")
    strides, dilations = call.integers("strides") or (1,) * rank, call.integers("dilations") or (1,) * rank
    pads, automatic = call.integers("pads"), call.text("auto_pad", "NOTSET")
    if any(len(part) != rank for part in (kernel, strides, dilations)):
        raise Refused(f"its kernel_shape, strides or dilations are not {rank} numbers")
    if min(*kernel, *strides, *dilations) < 1:
        raise Refused("its kernel_shape, strides or dilations are not positive")
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        if max(dilations) > 1:
            raise Refused(f"auto_pad {automatic} with dilations is not supported: runtimes differ in it")
        pads = _same(automatic, image[2 - rank :], kernel, strides)
    elif automatic == "NOTSET":
        pads = pads or (0,) * (2 * rank)
    elif automatic == "VALID":
        pads = (0,) * (2 * rank)
    else:
        raise Refused(f"auto_pad {automatic!r} is not known")
    if len(pads) != 2 * rank:
        raise Refused(f"its pads are not {2 * rank} numbers")
    if rank == 1:
        kernel, strides, dilations, pads = (1, *kernel), (1, *strides), (1, *dilations), (0, pads[0], 0, pads[1])
    top, left, bottom, right = pads
    windows = Windows(image, _pair(kernel), _pair(strides), (top, left, bottom, right), _pair(dilations))
    call.builder.spend((x.shape[1], *windows.padded))
    if math.prod(windows.kernel) > MOST_PIXELS:
        raise Refused(f"a window of more than {MOST_PIXELS} pixels is not supported")
    return windows


def _pair(numbers: Sequence[int]) -> tuple[int, int]:
    return numbers[0], numbers[1]


def _same(side: str, image: Sequence[int], kernel: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Return the pads with which there is a window for every stride that begins in the image."""
    before, after = [], []
    for length, width, stride in zip(image, kernel, strides, strict=True):
        wanted = (math.ceil(Fraction(length, stride)) - 1) * stride + width - length
        if wanted < -1:  # some cut pixels off in front, others behind
            raise Refused(f"auto_pad {side} with windows so far apart is not supported: runtimes differ in it")
        total = max(wanted, 0)
        first = total // 2 if side == "SAME_UPPER" else total - total // 2
        before.append(first)
        after.append(total - first)
    return (*before, *after)


def _result(x: Variable, channels: int, windows: Windows) -> tuple[int, ...]:
    """Return the shape of what windows make, with as many axes as x."""
    height, width = windows.result
    return (1, channels, height, width) if len(x.shape) == 4 else (1, channels, width)


def _conv(call: Call) -> Value:
    """Translate a convolution with a constant kernel."""
    call.at_most(3)
    x, weight = call.variable(0), call.floats(1)
    group = call.integer("group", 1)
    if len(weight.shape) != len(x.shape) or group < 1 or len(x.shape) < 3:
        raise Refused(f"a kernel of shape {weight.shape} in {group} groups does not fit a value of shape {x.shape}")
    windows = _windows(call, x, weight.shape[2:])
    if weight.shape[1] * group != x.shape[1] or not weight.shape[0]:
        raise Refused(f"a kernel of shape {weight.shape} in {group} groups does not fit a value of shape {x.shape}")
    kernel = weight.reshape(*weight.shape[:2], *windows.kernel)
    shape = _result(x, len(weight), windows)
    call.builder.spend(shape)
    bias = call.floats(2) if call.has(2) else None
    if bias is not None and bias.shape != (len(weight),):
        raise Refused(f"its bias of shape {bias.shape} does not fit {len(weight)} channels")
    return call.emit(Convolution(kernel, windows, group=group, bias=bias), [x], shape)


def _average_pool(call: Call) -> Value:
    """Translate the mean over windows: a convolution with ones, then a division by the number of pixels."""
    call.at_most(1)
    x = call.variable(0)
    windows = _windows(call, x, None)
    call.only("ceil_mode", 0)
    channels, shape = x.shape[1], _result(x, x.shape[1], windows)
    call.builder.spend(shape)
    call.builder.spend((channels, *windows.kernel))
    op = Convolution(np.ones((channels, 1, *windows.kernel)), windows, group=channels)
    if call.flag("count_include_pad"):
        counts = np.full(op.size, math.prod(windows.kernel), dtype=np.float64)
    else:
        counts = op.forward([np.ones((1, x.size))])[0]
    if not counts.all():
        raise Refused("a window lies in the padding altogether")
    return divided(call, call.emit(op, [x], shape), counts)


def _max_pool(call: Call) -> Value:
    """Translate the maximum over windows: along the height, and then along the width of what that makes."""
    call.at_most(1)
    x = call.variable(0)
    windows = _windows(call, x, None)
    call.only("ceil_mode", 0)
    call.only("storage_order", 0)
    shape = _result(x, x.shape[1], windows)
    image = Variable(x.place, (x.shape[1], *windows.image))
    for axis in range(2):
        image = _largest_along(call, image, windows, axis)
    return Variable(image.place, shape)


def _largest_along(call: Call, image: Variable, windows: Windows, axis: int) -> Variable:
    """Return the maxima over windows along one axis of an image (channels, height, width).

    The pixels of a window that are not padding are halved: neighbours make pairs, an odd one stays last. Windows with
    as many pixels are done together.
    """
    size, kernel, count = windows.image[axis], windows.kernel[axis], windows.result[axis]
    call.builder.spend((count, kernel))
    begins = np.arange(count) * windows.strides[axis] - windows.pads[axis]
    reach = begins[:, None] + np.arange(kernel) * windows.dilations[axis]
    inside = (reach >= 0) & (reach < size)
    if not inside.any(1).all():
        raise Refused("a window lies in the padding altogether")
    widths = np.unique(inside.sum(1))
    if widths.sum() > MOST_STEPS:
        raise Refused(f"windows of more than {MOST_STEPS} pixels are not supported")
    at, parts, order = 1 + axis, [], []
    for width in widths.tolist():
        (group,) = np.nonzero(inside.sum(1) == width)
        pixels = reach[group][inside[group]].reshape(len(group), width)
        shape = (*image.shape[:at], len(group), *image.shape[at + 1 :])
        call.builder.spend((width, *shape))
        left = [call.look(image, partial(np.take, indices=own, axis=at)) for own in pixels.T]
        while len(left) > 1:
            pairs = [larger(call, a, b) for a, b in zip(left[::2], left[1::2], strict=False)]
            left = [*pairs, *left[2 * len(pairs) :]]
        parts.append(left[0])
        order.append(group)
    if len(parts) == 1:
        return parts[0]
    firsts = np.cumsum([0, *(part.size for part in parts)]).tolist()
    joined = np.concatenate([places(part, first) for part, first in zip(parts, firsts, strict=False)], at)
    return call.take(joined.take(np.argsort(np.concatenate(order)), at), parts)


# --- ReLU and what is written with it ---


def _relu(call: Call) -> Value:
    call.at_most(1)
    return call.relu(call.variable(0))


def _leaky_relu(call: Call) -> Value:
    call.at_most(1)
    x = call.variable(0)
    return leaky(call, x, np.full(x.size, call.number("alpha", 0.01)))


def _prelu(call: Call) -> Value:
    call.at_most(2)
    x = call.variable(0)
    return leaky(call, x, flat(call, call.floats(1), x.shape))


def leaky(call: Call, x: Variable, slope: Array) -> Variable:
    """Return s·x + (1 − s)·relu(x)."""
    rest = 1.0 - slope  # one rounding, relative error 2^-53; none for most slopes
    exact = all(1 - Fraction(s) == Fraction(1.0 - s) for s in np.unique(slope).tolist() if abs(s) <= 2.0**100)
    line = call.emit(Scale(slope), [x], x.shape)
    hinge = call.emit(Scale(rest, folded=not exact), [call.relu(x)], x.shape)
    return call.sum(line, hinge)


def _abs(call: Call) -> Value:
    """Translate |x| = 2·relu(x) − x."""
    call.at_most(1)
    x = call.variable(0)
    twice = call.emit(Scale(np.full(x.size, 2.0)), [call.relu(x)], x.shape)
    return call.sum(twice, x, -1)


def _clip(call: Call) -> Value:
    """Translate lo + relu(x − lo) − relu(x − hi)."""
    call.at_most(1 if call.opset < 11 else 3)
    x = call.variable(0)
    low, high = _limit(call, x, "min", 1), _limit(call, x, "max", 2)
    if low is None or high is None:
        result = x if low is None else larger(call, x, np.full(x.shape, low))
        return result if high is None else smaller(call, result, np.full(x.shape, high))
    if low > high:
        raise Refused(f"its lower bound {low} is above its upper bound {high}")
    above_low = call.relu(shifted(call, x, np.array(-low)))
    above_high = call.relu(shifted(call, x, np.array(-high)))
    return shifted(call, call.sum(above_low, above_high, -1), np.array(low))


def _limit(call: Call, x: Variable, name: str, i: int) -> float | None:
    """Return a bound of Clip; None where it is not given or infinite, or where every float32 passes it.

    In the last case the network is that of the file only while no value is beyond a float32: this has to be shown.
    """
    if call.opset < 11:
        if name not in call.node.attributes:
            return None
        limit = call.number(name, 0.0)
    elif call.has(i):
        constant = call.constant(i)
        if constant.size != 1 or constant.dtype != np.float64:
            raise Refused(f"its {name} is not one float")
        limit = float(constant.reshape(-1)[0])
    else:
        return None
    away = -limit if name == "min" else limit
    if not away >= SINGLE:
        return limit
    if away < math.inf:
        call.builder.uncut.add(x.place)
    return None


def _max(call: Call) -> Value:
    return _extreme(call, larger, np.maximum)


def _min(call: Call) -> Value:
    return _extreme(call, smaller, np.minimum)


def _extreme(
    call: Call,
    pick: Callable[[Call, Variable, Variable | Array], Variable],
    choose: Callable[[Array, Array], Array],
) -> Value:
    """Translate the largest or smallest of several values, from left to right."""
    operands = [_operand(value) for value in call.all]
    shape = common_shape(*(operand.shape for operand in operands))
    result, *others = [
        spread_out(call, x, shape) if isinstance(x, Variable) else flat(call, x, shape).reshape(shape) for x in operands
    ]
    for other in others:
        if isinstance(result, Variable):
            result = pick(call, result, other)
        elif isinstance(other, Variable):
            result = pick(call, other, result)  # the constant comes second
        else:
            result = choose(result, other)
    return result


def larger(call: Call, a: Variable, b: Variable | Array) -> Variable:
    """Return max(a, b) = b + relu(a − b), for values of one shape."""
    return more(call, call.relu(less(call, a, b)), b)


def smaller(call: Call, a: Variable, b: Variable | Array) -> Variable:
    """Return min(a, b) = b − relu(b − a), for values of one shape."""
    if isinstance(b, Variable):
        return less(call, b, call.relu(less(call, b, a)))
    constant = b.reshape(-1)
    below = call.relu(call.emit(Scale(-np.ones(a.size), bias=constant), [a], a.shape))
    return call.emit(Scale(-np.ones(a.size), bias=constant), [below], a.shape)


# --- what moves, picks or repeats entries ---


def _identity(call: Call) -> Value:
    call.at_most(1)
    return call.value(0)


def _dropout(call: Call) -> Value:
    """Translate what does nothing outside of training."""
    call.at_most(3)
    call.ignore("ratio", "seed")
    if call.has(2) and call.constant(2).any():
        raise Refused("it is in training mode")
    return call.value(0)


def _cast(call: Call) -> Value:
    """Translate a change of type: of a constant as it says, of a value, between floats, as nothing."""
    call.at_most(1)
    call.ignore("saturate")
    x, kind = call.value(0), call.integer("to", 0)
    if isinstance(x, Variable):
        if kind not in (FLOAT, DOUBLE):
            raise Refused(f"a value that depends on the input is made {TYPES.get(kind, kind)}")
        return x
    if kind in (FLOAT, DOUBLE):
        if x.dtype == np.float64:
            require_tame(np.asarray(x, dtype=np.float64))
        return x.astype(np.float32 if kind == FLOAT else np.float64).astype(np.float64)
    if kind == BOOL:
        return np.asarray(x != 0)
    if kind not in (INT32, INT64) or (x.size and not bool(np.all(np.abs(x.astype(np.float64)) < 2.0**31))):
        raise Refused(f"a constant that is made {TYPES.get(kind, kind)} is not supported")
    return x.astype(np.int64)


def _reshape(call: Call) -> Value:
    """Translate a new shape: 0 keeps the axis, −1 is what is left."""
    call.at_most(2)
    x, asked = call.value(0), call.indices(1)
    literal = call.flag("allowzero")
    shape = [x.shape[i] if n == 0 and not literal and i < len(x.shape) else n for i, n in enumerate(asked)]
    return reshaped(call, x, shape)


def reshaped(call: Call, x: Value, shape: Sequence[int]) -> Value:
    """Return the same entries in another shape, in which one axis may be −1."""
    size, known = math.prod(x.shape), math.prod(n for n in shape if n != -1)
    if list(shape).count(-1) > 1 or min(shape, default=0) < -1 or len(shape) > MOST_AXES:
        raise Refused(f"the shape {tuple(shape)} cannot be")
    if -1 in shape and known and size % known == 0:
        shape = [size // known if n == -1 else n for n in shape]
    if math.prod(shape) != size or -1 in shape:
        raise Refused(f"a value of shape {x.shape} cannot be brought to the shape {tuple(shape)}")
    return call.view(x, lambda entries: entries.reshape(tuple(shape)))


def _flatten(call: Call) -> Value:
    call.at_most(1)
    x, axis = call.value(0), call.integer("axis", 1)
    if not -len(x.shape) <= axis <= len(x.shape):
        raise Refused(f"there is no axis {axis} among {len(x.shape)}")
    axis += len(x.shape) if axis < 0 else 0
    return reshaped(call, x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


def _transpose(call: Call) -> Value:
    call.at_most(1)
    x, order = call.value(0), call.integers("perm")
    axes = tuple(reversed(range(len(x.shape)))) if order is None else order
    if sorted(axes) != list(range(len(x.shape))):
        raise Refused(f"its perm {axes} does not fit {len(x.shape)} axes")
    return call.view(x, lambda entries: np.transpose(entries, axes))


def _squeeze(call: Call) -> Value:
    call.at_most(1 if call.opset < 13 else 2)
    x = call.value(0)
    listed = call.listed("axes", 1, 13)
    if listed == ():
        raise Refused("its axes are empty: runtimes differ in what that means")
    ones = tuple(axis for axis, n in enumerate(x.shape) if n == 1)
    axes = ones if listed is None else axes_of(listed, len(x.shape))
    if any(x.shape[axis] != 1 for axis in axes):
        raise Refused(f"an axis of {axes} is not of length 1 in {x.shape}")
    return reshaped(call, x, [n for axis, n in enumerate(x.shape) if axis not in axes])


def _unsqueeze(call: Call) -> Value:
    call.at_most(1 if call.opset < 13 else 2)
    x = call.value(0)
    listed = call.listed("axes", 1, 13)
    if listed is None:
        raise Refused("its axes are missing")
    rank = len(x.shape) + len(listed)
    if rank > MOST_AXES:
        raise Refused(f"its result has more than {MOST_AXES} axes")
    axes = axes_of(listed, rank)
    lengths = iter(x.shape)
    return reshaped(call, x, [1 if axis in axes else next(lengths) for axis in range(rank)])


def _slice(call: Call) -> Value:
    """Translate slices, whose rules for negative and large numbers are Python's."""
    call.at_most(1 if call.opset < 10 else 5)
    x = call.value(0)
    starts, ends = call.listed("starts", 1, 10), call.listed("ends", 2, 10)
    listed = call.listed("axes", 3, 10)
    steps = call.indices(4) if call.opset >= 10 and call.has(4) else None
    if starts is None or ends is None:
        raise Refused("its starts or ends are missing")
    steps = (1,) * len(starts) if steps is None else steps
    axes = axes_of(range(len(starts)) if listed is None else listed, len(x.shape))
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise Refused("its starts, ends, axes and steps do not fit together, or a step is 0")
    cuts = [slice(None)] * len(x.shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        cuts[axis] = slice(start, end, step)
    return call.view(x, lambda entries: entries[tuple(cuts)])


def _gather(call: Call) -> Value:
    """Translate picking along an axis, at constant places."""
    call.at_most(2)
    x, index = call.value(0), call.constant(1)
    axis = axis_of(call.integer("axis", 0), len(x.shape))
    if index.dtype != np.int64:
        raise Refused("its indices are not integers")
    length = x.shape[axis]
    if index.size and not -length <= index.min() <= index.max() < length:
        raise Refused(f"an index lies outside of an axis of length {length}")
    call.builder.spend((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))
    places_taken = index.astype(np.int64) % max(length, 1)
    return call.view(x, lambda entries: np.take(entries, places_taken, axis=axis))


def _concat(call: Call) -> Value:
    """Translate joining along an axis, of values and constants."""
    parts = call.all
    if "axis" not in call.node.attributes:
        raise Refused("its axis is missing")
    axis = axis_of(call.integer("axis", 0), len(parts[0].shape))
    shapes = {part.shape[:axis] + part.shape[axis + 1 :] for part in parts}
    if len(shapes) > 1 or len({len(part.shape) for part in parts}) > 1:
        raise Refused("its inputs do not fit together")
    call.builder.spend((sum(math.prod(part.shape) for part in parts),))
    constants = [part for part in parts if not isinstance(part, Variable)]
    if len(constants) == len(parts):
        if len({part.dtype for part in constants}) > 1:
            raise Refused("its inputs are of different types")
        return np.concatenate(constants, axis=axis)
    variables = [part for part in parts if isinstance(part, Variable)]
    # Entries of a constant are picked from nowhere (−1), and are in the bias.
    index, bias, first = [], [], 0
    for part in parts:
        if isinstance(part, Variable):
            index.append(places(part, first))
            bias.append(np.zeros(part.shape))
            first += part.size
        else:
            index.append(np.full(part.shape, -1))
            bias.append(as_floats(part))
    constant = np.concatenate(bias, axis=axis).reshape(-1) if constants else None
    return call.take(np.concatenate(index, axis=axis).astype(np.int64), variables, constant)


def _split(call: Call) -> list[Value]:
    """Translate cutting an axis into pieces, one for each output."""
    call.at_most(1 if call.opset < 13 else 2)
    x = call.value(0)
    axis = axis_of(call.integer("axis", 0), len(x.shape))
    widths = call.listed("split", 1, 13)
    count = len(call.node.outputs)
    if not count or call.integer("num_outputs", count) != count:
        raise Refused(f"its num_outputs is not {count}")
    length = x.shape[axis]
    if widths is None:
        most = -(-length // count)
        if length % count and call.opset < 18:
            raise Refused(f"an axis of length {length} cannot be cut into {count} equal pieces")
        widths = (most,) * (count - 1) + (length - most * (count - 1),)
    if len(widths) != count or min(widths) < 0 or sum(widths) != length:
        raise Refused(f"the pieces {widths} do not make an axis of length {length}")
    edges = [0, *itertools.accumulate(widths)]

    def piece(i: int) -> Value:
        cuts = (slice(None),) * axis + (slice(edges[i], edges[i + 1]),)
        return call.view(x, lambda entries: entries[cuts])

    return [piece(i) for i in range(count)]


def _pad(call: Call) -> Value:
    """Translate a border of one constant."""
    call.at_most(1 if call.opset < 11 else 4)
    x, mode = call.variable(0), call.text("mode", "constant")
    pads = call.listed("pads", 1, 11)
    if mode != "constant" or pads is None:
        raise Refused(f"mode {mode!r} is not supported, or its pads are missing")
    if call.opset < 11:
        fill = call.number("value", 0.0)
    else:
        given = call.floats(2) if call.has(2) else np.zeros(1)
        if given.size != 1:
            raise Refused("what it pads with is not one number")
        fill = float(given.reshape(-1)[0])
    axes = axes_of(call.indices(3) if call.has(3) else range(len(x.shape)), len(x.shape))
    if len(pads) != 2 * len(axes) or min(pads, default=0) < 0:
        raise Refused(f"its pads {pads} do not fit {x.shape}, or are negative")
    widths = [(0, 0)] * len(x.shape)
    for i, axis in enumerate(axes):
        widths[axis] = (pads[i], pads[i + len(axes)])
    call.builder.spend([n + before + after for n, (before, after) in zip(x.shape, widths, strict=True)])
    index = np.pad(places(x), widths, constant_values=-1)
    bias = np.where(index < 0, fill, 0.0).reshape(-1) if fill else None
    return call.take(index, [x], bias)


def _expand(call: Call) -> Value:
    """Translate repeating along axes; both shapes may have axes of length 1."""
    call.at_most(2)
    x, asked = call.value(0), call.indices(1)
    if len(asked) > MOST_AXES or min(asked, default=1) < 1:
        raise Refused(f"the shape {asked[:MOST_AXES]} is not supported")
    return broadcast(call, x, common_shape(x.shape, asked))


# --- constants ---


def _constant(call: Call) -> Value:
    call.at_most(0)
    tensor = call.tensor("value")
    if tensor is not None:
        return tensor
    if "value_float" in call.node.attributes:
        return np.array(call.number("value_float", 0.0), dtype=np.float64)
    if "value_int" in call.node.attributes:
        return np.array(call.integer("value_int", 0), dtype=np.int64)
    integers = call.integers("value_ints")
    if integers is None:
        raise Refused("its value is of a kind that is not supported")
    return np.array(integers, dtype=np.int64)


def _constant_of_shape(call: Call) -> Value:
    call.at_most(1)
    shape, value = call.indices(0), call.tensor("value")
    if len(shape) > MOST_AXES or min(shape, default=0) < 0:
        raise Refused(f"the shape {shape[:MOST_AXES]} cannot be")
    call.builder.spend(shape)
    fill = np.zeros(1) if value is None else value.reshape(-1)
    if fill.size != 1:
        raise Refused("its value is not one number")
    return np.full(shape, fill[0], dtype=fill.dtype)


def _shape(call: Call) -> Value:
    call.at_most(1)
    shape = call.value(0).shape
    start, end = call.integer("start", 0), call.integer("end", len(shape))
    return np.array(shape[start:end], dtype=np.int64)


def _equal(call: Call) -> Value:
    call.at_most(2)
    a, b = call.constant(0), call.constant(1)
    if a.dtype != np.int64 or b.dtype != np.int64:
        raise Refused("it compares what are not integers")
    call.builder.spend(common_shape(a.shape, b.shape))
    return np.asarray(a == b)


def _where(call: Call) -> Value:
    call.at_most(3)
    condition, a, b = (call.constant(i) for i in range(3))
    if condition.dtype != np.bool_ or a.dtype != b.dtype:
        raise Refused("its condition is not one, or the types of its values differ")
    call.builder.spend(common_shape(condition.shape, a.shape, b.shape))
    return np.where(condition, a, b)


TRANSLATIONS: dict[str, Callable[[Call], Value | list[Value]]] = {
    "Abs": _abs,
    "Add": _add,
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_normalization,
    "Cast": _cast,
    "Clip": _clip,
    "Concat": _concat,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Conv": _conv,
    "Div": _div,
    "Dropout": _dropout,
    "Equal": _equal,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_average_pool,
    "Identity": _identity,
    "LeakyRelu": _leaky_relu,
    "MatMul": _matmul,
    "Max": _max,
    "MaxPool": _max_pool,
    "Min": _min,
    "Mul": _mul,
    "Neg": _neg,
    "PRelu": _prelu,
    "Pad": _pad,
    "ReduceMean": _reduce_mean,
    "ReduceSum": _reduce_sum,
    "Relu": _relu,
    "Reshape": _reshape,
    "Shape": _shape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Sub": _sub,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}
