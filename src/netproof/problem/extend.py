"""A network's graph with more among its outputs: inputs that rows read, and products.

To the engine a row is a linear form of the output. Where rows read more than the network's outputs, the output of the
problems' graph is the network's, flattened, and after it products and inputs. Outputs and inputs are moved and not
computed, so nothing is rounded; the factors of a product are forms with whole coefficients, which float64 holds.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from netproof.model.affine import Linear
from netproof.model.graph import Graph, Node
from netproof.model.moves import Concat, Index, Reshape
from netproof.model.nonlinear.product import Product as ProductOp
from netproof.model.nonlinear.smooth import Square
from netproof.model.ops import Op
from netproof.problem.products import Atom, Form, Product


def with_inputs(graph: Graph, read: Sequence[int]) -> Graph:
    """Append the entries `read` of the flattened input to the graph's output: (output + read,)."""
    nodes = list(graph.nodes)
    outputs = _flat(nodes, graph.output)
    inputs = _flat(nodes, graph.input)
    index = Index(0, torch.tensor(read, dtype=torch.int64), graph.input.size)
    picked = _add(nodes, index, (inputs,), (len(read),), "inputs that rows read")
    sizes = (graph.output.size, len(read))
    _add(nodes, Concat(0, sizes, (None, None)), (outputs, picked), (sum(sizes),), "outputs, and inputs that rows read")
    return Graph(tuple(nodes))


def extended(graph: Graph, products: Sequence[Product], read: Sequence[int]) -> Graph:
    """Append products, and entries of the flattened input, to the graph's output: (output + products + read,)."""
    if not products:
        return with_inputs(graph, read)
    forms = [form for product in products for form in (product.left, product.right)]
    factors = {index for form in forms for (kind, index), _ in form.terms if kind == "x"}
    inputs = sorted(factors.union(read))
    column: dict[Atom, int] = {("y", k): k for k in range(graph.output.size)}
    column.update((("x", i), graph.output.size + k) for k, i in enumerate(inputs))
    nodes = list((with_inputs(graph, inputs) if inputs else graph).nodes)
    known = _flat(nodes, nodes[-1])
    for level in _levels(products):
        values = _multiplied(nodes, known, column, [products[m] for m in level])
        sizes = (nodes[known].size, len(level))
        column.update((("p", m), sizes[0] + k) for k, m in enumerate(level))
        known = _add(nodes, Concat(0, sizes, (None, None)), (known, values), (sum(sizes),), "values and products")
    atoms: list[Atom] = [("y", k) for k in range(graph.output.size)]
    atoms += [("p", m) for m in range(len(products))] + [("x", i) for i in read]
    _picked(nodes, known, [column[atom] for atom in atoms], "outputs, products, and inputs that rows read")
    return Graph(tuple(nodes))


def _levels(products: Sequence[Product]) -> list[list[int]]:
    """Group the products so that each reads only such as are in groups before; squares are groups of their own."""
    depth: list[int] = []
    for product in products:
        atoms = [atom for form in (product.left, product.right) for atom, _ in form.terms]
        depth.append(1 + max((depth[index] for kind, index in atoms if kind == "p"), default=-1))
    kinds = [(mine, product.is_square) for mine, product in zip(depth, products, strict=True)]
    return [[m for m, mine in enumerate(kinds) if mine == kind] for kind in sorted(set(kinds))]


def _multiplied(nodes: list[Node], known: int, column: dict[Atom, int], products: Sequence[Product]) -> int:
    """Multiply factors that are forms of the vector `known`: (product,). All products, or none, are squares."""
    used = sorted({column[atom] for p in products for form in (p.left, p.right) for atom, _ in form.terms})
    place = {atom: used.index(at) for atom, at in column.items() if at in set(used)}
    source = _picked(nodes, known, used, "what is multiplied")
    if products[0].is_square:
        factors = _linear([p.left for p in products], place, len(used))
        base = _add(nodes, factors, (source,), (len(products),), "what is squared")
        return _add(nodes, Square(), (base,), (len(products),), "squares of the property")
    halves = []
    for side, forms in (("left", [p.left for p in products]), ("right", [p.right for p in products])):
        factor = _add(nodes, _linear(forms, place, len(used)), (source,), (len(forms),), f"{side} factors")
        row = (1, len(forms))
        halves.append(_add(nodes, Reshape((len(forms),), row), (factor,), row, f"{side} factors, a row"))
    both = (2, len(products))
    stacked = _add(nodes, Concat(0, (1, 1), (None, None)), tuple(halves), both, "factors")
    return _add(nodes, ProductOp(), (stacked,), (len(products),), "products of the property")


def _linear(forms: Sequence[Form], place: dict[Atom, int], width: int) -> Linear:
    weight = torch.zeros(len(forms), width, dtype=torch.float64)
    for row, form in enumerate(forms):
        for atom, c in form.terms:
            weight[row, place[atom]] = float(c)
    bias = torch.tensor([float(form.constant) for form in forms], dtype=torch.float64)
    return Linear(weight, bias if bool(bias.any()) else None)


def _picked(nodes: list[Node], known: int, entries: Sequence[int], name: str) -> int:
    index = Index(0, torch.tensor(entries, dtype=torch.int64), nodes[known].size)
    return _add(nodes, index, (known,), (len(entries),), name)


def _flat(nodes: list[Node], node: Node) -> int:
    """Flatten a node, unless it is flat; return the flat node's index."""
    shape = (node.size,)
    if node.shape == shape:
        return node.index
    return _add(nodes, Reshape(node.shape, shape), (node.index,), shape, f"{node.name}, flat")


def _add(nodes: list[Node], op: Op, inputs: tuple[int, ...], shape: tuple[int, ...], name: str) -> int:
    nodes.append(Node(len(nodes), op, inputs, shape, name))
    return len(nodes) - 1
