"""Every supported operator in every form that differs, as small models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
from onnx_models import Model, ints

CASES: dict[str, Callable[[], Model]] = {}


def case(name: str) -> Callable[[Callable[[], Model]], Callable[[], Model]]:
    def enter(build: Callable[[], Model]) -> Callable[[], Model]:
        assert name not in CASES, name
        CASES[name] = build
        return build

    return enter


def entries(cases: Iterator[tuple[str, Callable[[], Model]]]) -> None:
    for name, build in cases:
        case(name)(build)


def f32(*values: float) -> np.ndarray:
    return np.asarray(values, dtype=np.float32)


def matrix_cases() -> Iterator[tuple[str, Callable[[], Model]]]:
    for (alpha, beta), ta, tb, opset in product(((1.0, 1.0), (0.5, 0.7), (0.3, 0.25)), (0, 1), (0, 1), (9, 13)):

        def gemm(alpha=alpha, beta=beta, ta=ta, tb=tb, opset=opset) -> Model:
            m = Model((4, 3) if ta else (3, 4), opset)
            weight = m.weights(5, 4) if tb else m.weights(4, 5)
            return m.add("Gemm", "x", weight, m.weights(5), alpha=alpha, beta=beta, transA=ta, transB=tb)

        yield f"gemm-{alpha}-{beta}-{ta}{tb}-{opset}", gemm
        if opset == 13:

            def left(alpha=alpha, beta=beta, ta=ta, tb=tb) -> Model:
                m = Model((2, 4) if tb else (4, 2))
                a = m.weights(4, 3) if ta else m.weights(3, 4)
                return m.add("Gemm", a, "x", m.weights(3, 1), alpha=alpha, beta=beta, transA=ta, transB=tb)

            yield f"gemm-left-{alpha}-{beta}-{ta}{tb}", left
    for shape, other in (((1, 4), (4, 3)), ((4,), (4, 3)), ((2, 3, 4), (4,)), ((1, 2, 4), (1, 4, 3))):

        def right(shape=shape, other=other) -> Model:
            m = Model(shape)
            return m.add("MatMul", "x", m.weights(*other))

        yield f"matmul-{shape}-{other}", right
    for other, shape in (((3, 4), (4, 2)), ((3, 4), (4,)), ((3, 4), (2, 4, 5)), ((4,), (4, 2))):

        def left_matmul(shape=shape, other=other) -> Model:
            m = Model(shape)
            return m.add("MatMul", m.weights(*other), "x")

        yield f"matmul-left-{other}-{shape}", left_matmul


entries(matrix_cases())


@case("gemm-without-addend")
def _gemm_without_addend() -> Model:
    m = Model((1, 4))
    return m.add("Gemm", "x", m.weights(4, 3))


@case("gemm-scalar-addend")
def _gemm_scalar_addend() -> Model:
    m = Model((2, 4))
    return m.add("Gemm", "x", m.weights(4, 3), np.float32([1.5]))


@case("gemm-branch-addend")
def _gemm_branch_addend() -> Model:
    m = Model((2, 4))
    return m.add("Gemm", "x", m.weights(4, 4), "x", beta=0.3)


def conv_cases() -> Iterator[tuple[str, Callable[[], Model]]]:
    forms = [
        {},
        {"strides": [2, 2], "pads": [1, 1, 1, 1]},
        {"strides": [2, 3], "pads": [0, 1, 2, 1]},
        {"dilations": [2, 1], "pads": [1, 1, 1, 1]},
        {"group": 2},
        {"strides": [3, 2], "group": 2, "dilations": [1, 2]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
        {"auto_pad": "VALID", "strides": [2, 1]},
        {"auto_pad": "SAME_UPPER", "strides": [1, 3]},
    ]
    for number, form in enumerate(forms):
        for bias in (True, False):

            def two_d(form=form, bias=bias) -> Model:
                m = Model(("N", 4, 8, 7), 11)
                weight = m.weights(6, 4 // form.get("group", 1), 3, 2)
                return m.add("Conv", "x", weight, m.weights(6) if bias else None, **form)

            yield f"conv2d-{number}-{bias}", two_d
        one = {k: v[: len(v) // 2] if isinstance(v, list) and k != "pads" else v for k, v in form.items()}
        if "pads" in one:
            one["pads"] = [form["pads"][1], form["pads"][3]]

        def one_d(one=one) -> Model:
            m = Model((2, 4, 9))
            return m.add("Conv", "x", m.weights(6, 4 // one.get("group", 1), 3), m.weights(6), **one)

        yield f"conv1d-{number}", one_d
    forms = [
        {},
        {"strides": [2, 2], "pads": [1, 1, 1, 1]},
        {"strides": [2, 3], "output_padding": [1, 2]},
        {"strides": [2, 2], "pads": [1, 0, 0, 1], "output_padding": [1, 0]},
        {"dilations": [2, 1], "group": 2},
        {"strides": [2, 2], "output_shape": [7, 9]},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
    ]
    for number, form in enumerate(forms):

        def transpose(form=form) -> Model:
            m = Model((1, 4, 3, 4))
            groups = form.get("group", 1)
            return m.add("ConvTranspose", "x", m.weights(4, 6 // groups, 3, 3), m.weights(6), **form)

        yield f"conv-transpose-{number}", transpose


entries(conv_cases())


@case("conv-transpose-1d")
def _conv_transpose_1d() -> Model:
    m = Model((1, 2, 5))
    return m.add("ConvTranspose", "x", m.weights(2, 3, 4), strides=[2], pads=[1, 1])


def pool_cases() -> Iterator[tuple[str, Callable[[], Model]]]:
    forms = [
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]},
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
        {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"kernel_shape": [2, 3], "strides": [2, 2], "ceil_mode": 1},
    ]
    for number, form in enumerate(forms):
        yield f"average-pool-{number}", lambda form=form: Model((1, 2, 6, 5)).add("AveragePool", "x", **form)


entries(pool_cases())
case("average-pool-1d")(lambda: Model((1, 2, 6)).add("AveragePool", "x", kernel_shape=[3], strides=[2]))
case("global-average-pool")(lambda: Model((1, 2, 3, 5)).add("GlobalAveragePool", "x"))


def arithmetic_cases() -> Iterator[tuple[str, Callable[[], Model]]]:
    for op, shape, swapped in product(
        ("Add", "Sub", "Mul", "Div"), ((), (3,), (2, 1), (4, 2, 3), (1, 1, 1, 3)), (False, True)
    ):
        if op == "Div" and swapped:
            continue

        def binary(op=op, shape=shape, swapped=swapped) -> Model:
            m = Model((2, 3))
            k = (m.random.uniform(0.5, 2.0, size=shape) * m.random.choice([-1, 1], size=shape)).astype(np.float32)
            return m.add(op, *((np.asarray(k), "x") if swapped else ("x", np.asarray(k))))

        yield f"{op.lower()}-{shape}-{swapped}", binary
    for op in ("ReduceMean", "ReduceSum"):
        for axes, keep in product(([1], [-1, 1], [0, 1, 2], None), (0, 1)):

            def by_attribute(op=op, axes=axes, keep=keep) -> Model:
                form = {} if axes is None else {"axes": axes}
                return Model((2, 3, 4), 11).add(op, "x", keepdims=keep, **form)

            def by_input(op=op, axes=axes, keep=keep) -> Model:
                return Model((2, 3, 4), 18).add(op, "x", None if axes is None else ints(*axes), keepdims=keep)

            yield f"{op}-attribute-{axes}-{keep}", by_attribute
            yield f"{op}-input-{axes}-{keep}", by_input


entries(arithmetic_cases())
case("reduce-noop")(lambda: Model((2, 3), 13).add("ReduceSum", "x", noop_with_empty_axes=1))
case("neg")(lambda: Model((2, 3)).add("Neg", "x"))
case("relu")(lambda: Model((2, 3)).add("Relu", "x"))
case("leaky-relu")(lambda: Model((2, 3)).add("LeakyRelu", "x", alpha=0.2))
case("leaky-relu-default")(lambda: Model((2, 3)).add("LeakyRelu", "x"))
case("sum-of-three")(lambda: Model((2, 3)).add("Sum", "x", f32(1, 2, 3), "x"))


def batch_norm(opset: int) -> Model:
    m = Model((1, 3, 2, 2), opset)
    variance = np.abs(m.weights(3)) + np.float32(0.1)
    parameters = (m.weights(3), m.weights(3), m.weights(3), variance)
    return m.add("BatchNormalization", "x", *parameters, epsilon=0.001)


for _opset in (8, 9, 14, 15):
    case(f"batch-norm-{_opset}")(lambda opset=_opset: batch_norm(opset))


@case("branches")
def _branches() -> Model:
    m = Model((1, 2, 3))
    m.add("Gemm", "f", m.weights(6, 3), out="a").add("Unsqueeze", "a", ints(0), out="b")
    m.nodes.insert(0, m.add("Flatten", "x", out="f").nodes.pop())
    return m.add("Sub", "x", "b")


@case("branch-twice")
def _branch_twice() -> Model:
    return Model((2, 3)).add("Add", "x", "x")


def move_cases() -> Iterator[tuple[str, Callable[[], Model]]]:
    for target in ((6, 4), (-1,), (0, -1), (2, 0, 4), (4, 3, 2)):
        yield f"reshape-{target}", lambda t=target: Model((2, 3, 4)).add("Reshape", "x", ints(*t))
    for axis in (0, 1, 2, -1):
        yield f"flatten-{axis}", lambda axis=axis: Model((2, 3, 4)).add("Flatten", "x", axis=axis)
    yield "squeeze-all", lambda: Model((1, 3, 1)).add("Squeeze", "x")
    yield "squeeze-attribute", lambda: Model((1, 3, 1), 11).add("Squeeze", "x", axes=[-1])
    yield "squeeze-input", lambda: Model((1, 3, 1), 13).add("Squeeze", "x", ints(0))
    yield "unsqueeze-attribute", lambda: Model((2, 3), 11).add("Unsqueeze", "x", axes=[0, 3])
    yield "unsqueeze-input", lambda: Model((2, 3), 13).add("Unsqueeze", "x", ints(-1, 0))
    yield "transpose", lambda: Model((2, 3, 4)).add("Transpose", "x", perm=[2, 0, 1])
    yield "transpose-default", lambda: Model((2, 3, 4)).add("Transpose", "x")
    yield "expand", lambda: Model((3, 1)).add("Expand", "x", ints(2, 1, 4))
    yield "gather-scalar", lambda: Model((2, 3)).add("Gather", "x", np.asarray(-1), axis=1)
    yield "gather-repeats", lambda: Model((2, 3)).add("Gather", "x", ints(2, 0, 2, 2), axis=1)
    yield (
        "gather-table",
        lambda: Model((4, 3)).add("Gather", "x", np.asarray([[0, 3], [1, 1]], dtype=np.int64), axis=0),
    )
    yield "split-equal", lambda: joined(Model((2, 6), 11).add("Split", "x", out=("a", "b", "c"), axis=1))
    yield (
        "split-attribute",
        lambda: joined(Model((2, 6), 11).add("Split", "x", out=("a", "b", "c"), axis=1, split=[1, 2, 3])),
    )
    yield (
        "split-input",
        lambda: joined(Model((2, 6), 13).add("Split", "x", ints(1, 2, 3), out=("a", "b", "c"), axis=-1)),
    )
    yield (
        "split-uneven",
        lambda: joined(Model((2, 8), 18).add("Split", "x", out=("a", "b", "c"), axis=1, num_outputs=3)),
    )
    yield "pad-attribute", lambda: Model((2, 3), 8).add("Pad", "x", pads=[0, 1, 2, 0], value=0.5)
    yield "pad-input", lambda: Model((2, 3), 13).add("Pad", "x", ints(1, 0, 0, 2), np.float32(-1.5))
    yield "pad-crop", lambda: Model((4, 3), 13).add("Pad", "x", ints(-1, 1, -1, 0))
    yield "pad-axes", lambda: Model((2, 3), 18).add("Pad", "x", ints(1, 2), np.float32(2.0), ints(1))
    yield "concat", lambda: Model((2, 3)).add("Concat", "x", "x", axis=0)
    yield (
        "concat-constant",
        lambda: Model((2, 3)).add("Concat", np.ones((2, 1), np.float32), "x", np.full((2, 2), 3, np.float32), axis=-1),
    )
    yield "identity", lambda: Model((2, 3)).add("Identity", "x")
    yield "dropout", lambda: Model((2, 3), 12).add("Dropout", "x")
    yield "cast", lambda: Model((2, 3)).add("Cast", "x", to=11, out="d").add("Cast", "d", to=1)


def joined(model: Model) -> Model:
    """The parts in another order, so that each one is seen."""
    return model.add("Concat", "c", "a", "b", axis=1)


def slice_cases() -> Iterator[tuple[str, Callable[[], Model]]]:
    far = 2**63 - 1
    for starts, ends, axes, steps in (
        ([1], [3], [1], [1]),
        ([0, 1], [2, far], [0, 2], [1, 2]),
        ([-1], [-far], [2], [-1]),
        ([-2], [0], [1], [-1]),
        ([3], [-5], [2], [-2]),
        ([-100], [2], [2], [1]),
    ):
        yield (
            f"slice-{starts}-{ends}-{steps}",
            lambda s=starts, e=ends, a=axes, t=steps: Model((2, 3, 4), 11).add(
                "Slice", "x", ints(*s), ints(*e), ints(*a), ints(*t)
            ),
        )
    yield (
        "slice-attribute",
        lambda: Model((2, 3, 4), 9).add("Slice", "x", starts=[0, 1], ends=[2, -1], axes=[1, 2]),
    )
    yield "slice-all-axes", lambda: Model((2, 3), 10).add("Slice", "x", ints(1, 0), ints(2, 2))


entries(move_cases())
entries(slice_cases())


@case("folded-shape-chain")
def _folded_shape_chain() -> Model:
    """What exporters write for x.view(x.size(0), -1)."""
    m = Model(("batch", 3, 2, 2))
    m.add("Shape", "x", out="s").add("Gather", "s", np.asarray(0), axis=0, out="n")
    m.add("Unsqueeze", "n", ints(0), out="u").add("Concat", "u", ints(-1), axis=0, out="t")
    return m.add("Reshape", "x", "t")


@case("folded-float-arithmetic")
def _folded_float_arithmetic() -> Model:
    m = Model((2, 3))
    m.add("Add", np.abs(m.weights(3)), np.float32([0.001]), out="v").add("Sqrt", "v", out="s")
    m.add("Div", m.weights(3), "s", out="k").add("Transpose", "k", out="t")
    return m.add("Mul", "x", "t", out="z").add("Add", "z", "k")


@case("folded-weights")
def _folded_weights() -> Model:
    m = Model((1, 4))
    m.add("Mul", m.weights(3, 4), np.float32(0.3), out="w").add("Transpose", "w", out="t")
    return m.add("MatMul", "x", "t")


@case("folded-kernel")
def _folded_kernel() -> Model:
    m = Model((1, 2, 5, 5))
    m.add("Div", m.weights(3, 2, 3, 3), np.float32(3.0), out="w").add("Sqrt", f32(1, 2, 3), out="b")
    return m.add("Conv", "x", "w", "b", pads=[1, 1, 0, 0])


@case("constant-nodes")
def _constant_nodes() -> Model:
    m = Model((2, 3))
    m.add("Constant", out="a", value_float=0.5).add("Constant", out="b", value_floats=[1.0, 2.0, 3.0])
    return m.add("Mul", "x", "a", out="z").add("Add", "z", "b")


@case("constant-output")
def _constant_output() -> Model:
    m = Model((2, 3))
    m.add("Shape", "x", out="s").add("ConstantOfShape", "s", out="z")
    return m.add("Add", "z", f32(1, 2, 3))
