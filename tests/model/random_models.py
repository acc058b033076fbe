"""Random models of every supported kind of layer, with weights from 1e-30 to 1e12, and steep tents."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx_models import Model, ints

Layer = Callable[["RandomModel"], None]


class RandomModel:
    """A chain with branches, on images (1, C, H, W) until it is flattened."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.shape = (1, int(self.rng.integers(1, 5)) * 2, int(self.rng.integers(4, 9)), int(self.rng.integers(4, 9)))
        self.model = Model(self.shape, opset=int(self.rng.choice([9, 11, 13])), seed=seed)
        self.spread = float(self.rng.choice([0.0, 0.0, 3.0, 12.0]))  # decades between one layer's weights and the next
        self.name = "x"
        self.skip: tuple[str, tuple[int, ...]] = ("x", self.shape)

    def weights(self, *shape: int) -> np.ndarray:
        """Of one random size; in some layers each entry has a size of its own."""
        size = 10.0 ** np.clip(self.rng.normal(0.0, self.spread + 0.1), -30.0, 12.0)
        entries = self.rng.normal(size=shape) * size / np.sqrt(max(1, np.prod(shape[1:])))
        if self.rng.random() < 0.2:
            entries = entries * 10.0 ** self.rng.uniform(-8.0, 4.0, size=shape)
        return np.asarray(np.clip(entries, -1e12, 1e12), dtype=np.float32)

    def add(self, op: str, *inputs: object, shape: tuple[int, ...], **attributes: object) -> None:
        out = f"v{len(self.model.nodes)}"
        self.model.add(op, self.name, *inputs, out=out, **attributes)
        self.name, self.shape = out, shape

    def pick(self, *options: int) -> int:
        return int(self.rng.choice(options))


def conv(r: RandomModel) -> None:
    channels, height, width = r.shape[1:]
    groups, k, stride, dilation = r.pick(1, 1, 2), r.pick(1, 3), r.pick(1, 1, 2), r.pick(1, 1, 2)
    pads = [r.pick(0, 1, 2) for _ in range(4)]
    reach = dilation * (k - 1) + 1
    sides = [(n + a + b - reach) // stride + 1 for n, a, b in ((height, pads[0], pads[2]), (width, pads[1], pads[3]))]
    if min(sides) < 1:
        return
    filters = 2 * r.pick(1, 2, 4)
    bias = r.weights(filters) if r.rng.random() < 0.7 else None
    form = {"group": groups, "strides": [stride] * 2, "dilations": [dilation] * 2, "pads": pads}
    r.add("Conv", r.weights(filters, channels // groups, k, k), bias, shape=(1, filters, *sides), **form)


def conv_transpose(r: RandomModel) -> None:
    channels, height, width = r.shape[1:]
    groups, stride = r.pick(1, 2), r.pick(1, 2)
    filters = 2 * groups
    sides = ((height - 1) * stride + 3, (width - 1) * stride + 3)
    if max(sides) < 20:
        weight = r.weights(channels, filters // groups, 3, 3)
        r.add("ConvTranspose", weight, shape=(1, filters, *sides), group=groups, strides=[stride] * 2)


def average_pool(r: RandomModel) -> None:
    height, width = r.shape[2:]
    if min(height, width) >= 3:
        form = {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": r.pick(0, 1)}
        r.add("AveragePool", shape=r.shape, **form)


def batch_norm(r: RandomModel) -> None:
    channels = r.shape[1]
    variance = np.abs(r.weights(channels)) + np.float32(10.0 ** r.rng.uniform(-6.0, 0.0))
    epsilon = float(r.rng.choice([1e-5, 1e-3, 0.1]))
    r.add(
        "BatchNormalization",
        *(r.weights(channels) for _ in range(3)),
        variance.astype(np.float32),
        shape=r.shape,
        epsilon=epsilon,
    )


def arithmetic(r: RandomModel) -> None:
    op = str(r.rng.choice(["Add", "Sub", "Mul", "Div"]))
    operand = r.weights(r.shape[1], *(1 for _ in r.shape[2:]))
    r.add(op, np.where(operand == 0.0, np.float32(1.0), operand) if op == "Div" else operand, shape=r.shape)


def activation(r: RandomModel) -> None:
    if r.rng.random() < 0.7:
        r.add("Relu", shape=r.shape)
    else:
        r.add("LeakyRelu", shape=r.shape, alpha=float(r.rng.choice([0.01, 0.3, 1.0])))


def branch(r: RandomModel) -> None:
    name, shape = r.skip
    if shape == r.shape and name != r.name:
        r.add(str(r.rng.choice(["Add", "Sub"])), name, shape=r.shape)
    elif shape[:1] + shape[2:] == r.shape[:1] + r.shape[2:] and r.shape[1] + shape[1] <= 24:
        r.add("Concat", name, shape=(1, r.shape[1] + shape[1], *r.shape[2:]), axis=1)
    r.skip = (r.name, r.shape)


def folded(r: RandomModel) -> None:
    """A factor that the file computes from constants."""
    channels, out = r.shape[1], f"k{len(r.model.nodes)}"
    squares = np.abs(r.weights(channels, *(1 for _ in r.shape[2:]))) + np.float32(1e-6)
    r.model.add("Sqrt", squares, out=out + "a").add("Div", r.weights(*squares.shape), out + "a", out=out)
    r.add("Mul", out, shape=r.shape)


def gemm(r: RandomModel) -> None:
    outputs, trans = r.pick(3, 10, 40), r.pick(0, 1)
    size = r.shape[1]
    weight = r.weights(outputs, size) if trans else r.weights(size, outputs)
    factors = {"alpha": 1.0, "beta": 1.0} if r.rng.random() < 0.5 else {"alpha": 0.3, "beta": 1.7}
    r.add("Gemm", weight, r.weights(outputs), shape=(1, outputs), transB=trans, **factors)


def matmul(r: RandomModel) -> None:
    outputs = r.pick(3, 30)
    r.add("MatMul", r.weights(r.shape[1], outputs), shape=(1, outputs))
    r.add("Add", r.weights(outputs), shape=r.shape)


IMAGES: tuple[Layer, ...] = (conv, conv, conv, conv_transpose, average_pool, batch_norm, arithmetic, folded)
VECTORS: tuple[Layer, ...] = (gemm, gemm, matmul, arithmetic, folded, batch_norm)


def random_model(seed: int) -> Model:
    """2 to 12 layers, an activation after most of them."""
    r = RandomModel(seed)
    for layers, count in ((IMAGES, int(r.rng.integers(1, 8))), (VECTORS, int(r.rng.integers(1, 5)))):
        for _ in range(count):
            layers[int(r.rng.integers(len(layers)))](r)
            if r.rng.random() < 0.7:
                activation(r)
            if r.rng.random() < 0.3:
                branch(r)
        if layers is IMAGES:
            flatten(r)
    return r.model.add("Identity", r.name)


def flatten(r: RandomModel) -> None:
    kind = r.pick(0, 1, 2)
    if kind == 0:
        r.add("Flatten", shape=(1, int(np.prod(r.shape))))
    elif kind == 1:
        r.add("GlobalAveragePool", shape=(*r.shape[:2], 1, 1))
        r.add("Reshape", ints(1, -1), shape=(1, r.shape[1]))
    else:
        r.add("ReduceMean", shape=(1, r.shape[1]), axes=[2, 3], keepdims=0)
    r.skip = (r.name, r.shape)


def tent(seed: int, slope: float = 4096.0) -> Model:
    """relu(s(z − a)) − 2 relu(s(z − b)) + relu(s(z − c)) of a sum z of the inputs, which cancels almost wholly."""
    rng = np.random.default_rng(seed)
    model = Model((1, int(rng.integers(1, 6))), seed=seed)
    centre = rng.normal() * 10.0
    knots = centre + np.array([-1.0, 0.0, 1.0]) * rng.uniform(1e-4, 1.0)
    weight = np.repeat(rng.integers(-9, 10, size=(int(model.shape[0] or 1), 1, model.shape[1])), 3, axis=1)[0].T
    model.add("Gemm", "x", (weight * slope).astype(np.float32), (-knots * slope).astype(np.float32), out="h")
    model.add("Relu", "h", out="r")
    return model.add("Gemm", "r", np.float32([[1.0], [-2.0], [1.0]]), np.float32([rng.normal()]))
