"""Random graphs of images: convolutions of every kind, branches, joins and moves."""

from __future__ import annotations

import random

import torch

from netproof.model.affine import Scale, Sum
from netproof.model.conv import Conv, ConvTranspose, Kernel
from netproof.model.graph import Graph, Node
from netproof.model.moves import Concat, Index, Pad, Reshape
from netproof.model.nonlinear import Relu
from netproof.model.ops import Input, Op

LARGEST = 20  # a side
MOST_CHANNELS = 6


class ImageGraph:
    """Adds ops to images (1, C, H, W) at random; weights are float64."""

    def __init__(self, seed: int, side: int = 14) -> None:
        self.rng = random.Random(seed)
        self.weights = torch.Generator().manual_seed(seed)
        self.nodes = [Node(0, Input(), (), (1, 2, side, side + self.rng.randint(0, 2)), "x")]

    def normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self.weights, dtype=torch.float64)

    def add(self, op: Op, *inputs: int) -> int:
        xs = [torch.zeros(1, *self.nodes[i].shape, dtype=torch.float64) for i in inputs]
        shape = tuple(op.forward(*xs).shape[1:])
        self.nodes.append(Node(len(self.nodes), op, inputs, shape, f"{type(op).__name__}{len(self.nodes)}"))
        return len(self.nodes) - 1

    def some(self) -> int:
        """One of the last nodes, so that graphs grow deep."""
        return self.rng.randint(max(0, len(self.nodes) - 4), len(self.nodes) - 1)

    def kernel(self, channels: int, out: int, groups: int, image: tuple[int, ...] | None) -> Kernel | None:
        """A random kernel whose image is as given, or None of any size; None where it does not fit."""
        rng, pair = self.rng, lambda low, high: (self.rng.randint(low, high), self.rng.randint(low, high))
        window, stride = pair(1, 3), rng.choice([(1, 1), (1, 1), (2, 2), (1, 2), (3, 3)])
        dilation, padding = rng.choice([(1, 1), (1, 1), (2, 1), (2, 2)]), pair(0, 2)
        weight = self.normal(out, channels // groups, *window) / (channels * window[0] * window[1]) ** 0.5
        if image is None:
            return None
        made = Kernel(weight, stride, padding, dilation, groups, image)
        return made if min(made.result[1:]) > 2 else None

    def conv(self, node: int) -> int | None:
        shape = self.nodes[node].shape
        channels = shape[1]
        groups = self.rng.choice([g for g in (1, 1, 2, channels) if channels % g == 0])
        out = groups * self.rng.randint(1, max(1, 4 // groups))
        kernel = self.kernel(channels, out, groups, shape[1:])
        if kernel is None:
            return None
        return self.add(Conv(kernel, self.normal(out), shape, (1, *kernel.result)), node)

    def conv_transpose(self, node: int) -> int | None:
        shape = self.nodes[node].shape
        rng, (channels, *sides) = self.rng, shape[1:]
        groups = rng.choice([g for g in (1, 2) if channels % g == 0])
        out = groups * rng.randint(1, 2)
        stride, window = rng.choice([(1, 1), (2, 2), (2, 1)]), (rng.randint(2, 4), rng.randint(2, 3))
        padding, rest = (rng.randint(0, 1), rng.randint(0, 1)), (rng.randint(0, stride[0] - 1), 0)
        dilation = rng.choice([(1, 1), (1, 1), (2, 1), (1, 2)])
        image = [
            (size - 1) * s - 2 * p + d * (k - 1) + 1 + more
            for size, s, p, d, k, more in zip(sides, stride, padding, dilation, window, rest, strict=True)
        ]
        if max(image) > LARGEST or min(image) < 3:
            return None
        weight = self.normal(channels, out // groups, *window) / (channels * window[0] * window[1]) ** 0.5
        kernel = Kernel(weight, stride, padding, dilation, groups, (out, *image))
        return self.add(ConvTranspose(kernel, self.normal(out), shape, (1, *kernel.image)), node)

    def join(self, node: int) -> int | None:
        """Add a branch of the same shape, or put one beside it."""
        shape = self.nodes[node].shape
        alike = [n.index for n in self.nodes if n.shape == shape and n.index != node]
        if alike and self.rng.random() < 0.7:
            return self.add(Sum((1, self.rng.choice([1, -1]))), node, self.rng.choice(alike))
        axis = self.rng.choice([1, 1, 2, 3])
        beside = [n.index for n in self.nodes if _beside(n.shape, shape, axis)]
        other = self.rng.choice(beside)
        sizes = (shape[axis], self.nodes[other].shape[axis])
        if sum(sizes) > (MOST_CHANNELS if axis == 1 else LARGEST):
            return None
        return self.add(Concat(axis, sizes, (None, None)), node, other)

    def move(self, node: int) -> int | None:
        shape, rng = self.nodes[node].shape, self.rng
        kind = rng.randint(0, 4)
        if kind == 0:
            mult = rng.choice([self.normal(shape[1], 1, 1), self.normal(*shape), self.normal(1)])
            return self.add(Scale(mult, self.normal(shape[1], 1, 1)), node)
        if kind == 1:
            before, after = (0, 0, rng.randint(0, 1), rng.randint(-1, 1)), (0, 0, rng.randint(-1, 1), rng.randint(0, 1))
            value = rng.choice([None, torch.tensor(0.5, dtype=torch.float64)])
            return None if min(shape[2:]) < 4 else self.add(Pad(shape, before, after, value), node)
        if kind == 2:
            index = torch.tensor([rng.randrange(shape[1]) for _ in range(rng.randint(1, 3))])
            return self.add(Index(1, index, shape[1]), node)
        if kind == 3:
            axis, step = rng.choice([2, 3]), rng.choice([1, 2])
            index = torch.arange(rng.randint(0, 1), shape[axis], step)
            return self.add(Index(axis, index, shape[axis]), node) if len(index) > 2 else None
        return self.add(Reshape(shape, shape), node)

    def pool(self, node: int) -> int | None:
        """Average over windows: a kernel of ones for each channel, then a division."""
        shape = self.nodes[node].shape
        if min(shape[2:]) < 6:
            return None
        weight = torch.ones(shape[1], 1, 2, 2, dtype=torch.float64)
        kernel = Kernel(weight, (2, 2), (0, 0), (1, 1), shape[1], shape[1:])
        summed = self.add(Conv(kernel, None, shape, (1, *kernel.result)), node)
        return self.add(Scale(torch.tensor(0.25, dtype=torch.float64)), summed)


def _beside(one: tuple[int, ...], other: tuple[int, ...], axis: int) -> bool:
    return one[:axis] + one[axis + 1 :] == other[:axis] + other[axis + 1 :]


def image_graph(seed: int, ops: int = 9) -> Graph:
    """A random graph of images whose last node is one that all of the last ones lead to."""
    made = ImageGraph(seed)
    makers = [made.conv, made.conv, made.conv_transpose, made.join, made.join, made.move, made.pool]
    while len(made.nodes) < ops:
        if made.rng.choice(makers)(made.some()) is not None and made.rng.random() < 0.5:
            made.add(Relu(), len(made.nodes) - 1)
    return Graph(tuple(made.nodes))
