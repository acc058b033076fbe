"""How the whole network is wired, as messages between its layers: neurons and inputs, stable ones too."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netproof.bounds.neurons.root import Root
from netproof.errors import UsageError
from netproof.model.affine import Linear
from netproof.model.conv import Conv
from netproof.model.graph import Graph, Node
from netproof.model.moves import Reshape
from netproof.model.nonlinear.hinge import Relu
from netproof.model.ops import Affine


@dataclass(frozen=True, eq=False)
class Wiring:
    """Layer k of neurons reads what is before it by the affine nodes `stages[k]`; the last stage is the output's."""

    stages: list[list[Node]]
    shapes: list[tuple[int, ...]]  # of what each stage reads
    pre: list[int]  # by layer of neurons, the node of h
    bias: list[Tensor]  # (n_k,) by layer of neurons, and at last by output
    overlap: dict[int, Tensor]  # by convolution's node: by how many of its windows it reads each place

    @classmethod
    def of(cls, root: Root) -> Wiring:
        graph = root.graph32.graph
        stages, shapes = _stages(graph)
        bias = []
        for stage, shape in zip(stages, shapes, strict=True):
            x = torch.zeros(1, *shape, device=root.device)
            for node in stage:
                x = node.op.forward(x)
            bias.append(x.flatten())
        overlap = {n.index: _windows(n.op, root.device) for n in graph.nodes if isinstance(n.op, Conv)}
        return cls(stages, shapes, [stage[-1].index for stage in stages[:-1]], bias, overlap)

    def forwards(self, k: int, embedded: Tensor) -> Tensor:
        """Carry the embeddings (n, p) of what layer k reads to its neurons, along the weights."""
        x = embedded.mT.reshape(-1, *self.shapes[k])
        for node in self.stages[k]:
            x = _linear(node).forward(x)
        return x.flatten(1).mT

    def backwards(self, k: int, embedded: Tensor, *, averaged: bool) -> Tensor:
        """Carry the embeddings (n, p) of layer k to what it reads; averaged over a convolution's windows."""
        coef = embedded.mT.reshape(-1, *self.stages[k][-1].shape)
        for node in reversed(self.stages[k]):
            (coef,) = _linear(node).adjoint(coef)
            if averaged and node.index in self.overlap:
                coef = coef / self.overlap[node.index]
        return coef.flatten(1).mT

    def property(self, coef: Tensor, offset: Tensor) -> tuple[Tensor, Tensor]:
        """Return how coef·output − offset reads the last neurons, (1, n), and its constant, ()."""
        back = coef.reshape(1, *self.stages[-1][-1].shape)
        for node in reversed(self.stages[-1]):
            (back,) = _linear(node).adjoint(back)
        return back.flatten(1), coef @ self.bias[-1] - offset


def _linear(node: Node) -> Affine:
    assert isinstance(node.op, Affine)
    return node.op.linear()


def _stages(graph: Graph) -> tuple[list[list[Node]], list[tuple[int, ...]]]:
    """Cut a chain of layers at its ReLUs; UsageError where the network is no such chain."""
    stages: list[list[Node]] = [[]]
    shapes = [graph.input.shape]
    for node in graph.nodes[1:]:
        if node.inputs != (node.index - 1,) or not isinstance(node.op, Linear | Conv | Reshape | Relu):
            raise _not_read(node)
        if not isinstance(node.op, Relu):
            stages[-1].append(node)
            continue
        stages.append([])
        shapes.append(node.shape)
    read = [[n for n in stage if isinstance(n.op, Linear | Conv)] for stage in stages]
    for stage, nodes in zip(read, stages, strict=True):
        if len(stage) != 1:
            raise _not_read(nodes[-1] if nodes else graph.output)
    return stages, shapes


def _not_read(node: Node) -> UsageError:
    return UsageError(
        f"node {node.name or node.index}: the published graph network reads chains of convolutions or linear layers"
        " with a ReLU between each two",
        remedy="leave weights out: netproof's own graph network reads any network",
    )


def _windows(convolution: Conv, device: torch.device) -> Tensor:
    """Return by how many of its windows a convolution reads each place, (1, 1, *sides), never 0."""
    kernel = convolution.kernel
    lead = len(convolution.in_shape) - len(kernel.image)
    ones = torch.ones(1, 1, *kernel.window, device=device)
    alone = replace(kernel, weight=ones, groups=1, image=(1, *kernel.image[1:]))
    shapes = [(*(1,) * lead, 1, *sides) for sides in (kernel.image[1:], kernel.result[1:])]
    counting = replace(convolution, kernel=alone, bias=None, in_shape=shapes[0], out_shape=shapes[1], radius=None)
    (found,) = counting.adjoint(torch.ones(1, *shapes[1], device=device))
    return found.clamp(min=1)
