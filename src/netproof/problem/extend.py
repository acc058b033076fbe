"""A network's graph with more among its outputs: inputs that rows read, and values that the property derives.

To the engine a row is a linear form of the output. Where rows read more than the network's outputs, the output of the
problems' graph is the network's, flattened, and after it derived values and inputs. Outputs and inputs are moved and
not computed, so nothing is rounded; derived values are of forms with coefficients that float64 holds exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from netproof.model.affine import Linear
from netproof.model.graph import Graph, Node, append
from netproof.model.moves import Concat, Index, Reshape
from netproof.model.nonlinear.hinge import Relu
from netproof.model.nonlinear.product import Product as ProductOp
from netproof.model.nonlinear.smooth import Square
from netproof.problem.derived import Atom, Derived, Form, Positive


def with_inputs(graph: Graph, read: Sequence[int]) -> Graph:
    """Append the entries `read` of the flattened input to the graph's output: (output + read,)."""
    nodes = list(graph.nodes)
    outputs = _flat(nodes, graph.output)
    inputs = _flat(nodes, graph.input)
    index = Index(0, torch.tensor(read, dtype=torch.int64), graph.input.size)
    picked = append(nodes, index, (inputs,), (len(read),), "inputs that rows read")
    sizes = (graph.output.size, len(read))
    both = Concat(0, sizes, (None, None))
    append(nodes, both, (outputs, picked), (sum(sizes),), "outputs, and inputs that rows read")
    return Graph(tuple(nodes))


def extended(graph: Graph, derived: Sequence[Derived], read: Sequence[int]) -> Graph:
    """Append derived values, and entries of the flattened input, to the graph's output: (output + derived + read,)."""
    if not derived:
        return with_inputs(graph, read)
    factors = {index for one in derived for form in one.forms for (kind, index), _ in form.terms if kind == "x"}
    inputs = sorted(factors.union(read))
    column: dict[Atom, int] = {("y", k): k for k in range(graph.output.size)}
    column.update((("x", i), graph.output.size + k) for k, i in enumerate(inputs))
    nodes = list((with_inputs(graph, inputs) if inputs else graph).nodes)
    known = _flat(nodes, nodes[-1])
    for level in _levels(derived):
        values = _computed(nodes, known, column, [derived[m] for m in level])
        sizes = (nodes[known].size, len(level))
        column.update((("p", m), sizes[0] + k) for k, m in enumerate(level))
        known = append(nodes, Concat(0, sizes, (None, None)), (known, values), (sum(sizes),), "values and derived ones")
    atoms: list[Atom] = [("y", k) for k in range(graph.output.size)]
    atoms += [("p", m) for m in range(len(derived))] + [("x", i) for i in read]
    _picked(nodes, known, [column[atom] for atom in atoms], "outputs, derived values, and inputs that rows read")
    return Graph(tuple(nodes))


def _levels(derived: Sequence[Derived]) -> list[list[int]]:
    """Group the values so that each reads only such as are in groups before, and a group is of one kind."""
    depth: list[int] = []
    for one in derived:
        before = [depth[index] for form in one.forms for (kind, index), _ in form.terms if kind == "p"]
        depth.append(1 + max(before, default=-1))
    kinds = [(mine, _kind(one)) for mine, one in zip(depth, derived, strict=True)]
    return [[m for m, mine in enumerate(kinds) if mine == kind] for kind in sorted(set(kinds))]


def _kind(one: Derived) -> str:
    return "positive part" if isinstance(one, Positive) else "square" if one.is_square else "product"


def _computed(nodes: list[Node], known: int, column: dict[Atom, int], level: Sequence[Derived]) -> int:
    """Compute values of one kind, of forms of the vector `known`: (value,)."""
    used = sorted({column[atom] for one in level for form in one.forms for atom, _ in form.terms})
    at = {entry: k for k, entry in enumerate(used)}
    place = {atom: at[entry] for atom, entry in column.items() if entry in at}
    source = _picked(nodes, known, used, "what the property derives from")
    shape, kind = (len(level),), _kind(level[0])
    if kind != "product":
        linear = _linear([one.forms[0] for one in level], place, len(used))
        forms = append(nodes, linear, (source,), shape, f"of a {kind}")
        return append(nodes, Square() if kind == "square" else Relu(), (forms,), shape, f"{kind}s of the property")
    halves = []
    for side in (0, 1):
        factors = _linear([one.forms[side] for one in level], place, len(used))
        factor = append(nodes, factors, (source,), shape, "factors")
        row = (1, len(level))
        halves.append(append(nodes, Reshape(shape, row), (factor,), row, "factors, a row"))
    both = append(nodes, Concat(0, (1, 1), (None, None)), tuple(halves), (2, len(level)), "pairs of factors")
    return append(nodes, ProductOp(), (both,), shape, "products of the property")


def _linear(forms: Sequence[Form], place: dict[Atom, int], width: int) -> Linear:
    weight = torch.zeros(len(forms), width, dtype=torch.float64)
    for row, form in enumerate(forms):
        for atom, c in form.terms:
            weight[row, place[atom]] = float(c)
    bias = torch.tensor([float(form.constant) for form in forms], dtype=torch.float64)
    return Linear(weight, bias if bool(bias.any()) else None)


def _picked(nodes: list[Node], known: int, entries: Sequence[int], name: str) -> int:
    index = Index(0, torch.tensor(entries, dtype=torch.int64), nodes[known].size)
    return append(nodes, index, (known,), (len(entries),), name)


def _flat(nodes: list[Node], node: Node) -> int:
    """Flatten a node, unless it is flat; return the flat node's index."""
    shape = (node.size,)
    if node.shape == shape:
        return node.index
    return append(nodes, Reshape(node.shape, shape), (node.index,), shape, f"{node.name}, flat")
