"""The graph of a module's operations, as torch.export records them on an input that has no values.

No number of the input can be in this graph, since there is none when it is recorded; a tensor that depends on the
input in a way that the recording does not see has no values either, and ends it. What Python reads of constants (a
parameter in an `if`, a list made of a buffer) is answered as it was in the run on ordinary numbers, call by call, and
forward() is not told that it is recorded. The graph is then written without operations in place, and without those
that torch's exporter to ONNX has no form of, or a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Graph, GraphModule, Node
from torch.fx.graph import CodeGen
from torch.utils._pytree import tree_leaves

from netproof.model.origin.watched import Run, fresh, is_users_file, made_again

aten: Any = torch.ops.aten
_CALLER = re.compile(r'File "([^"]+)", line (\d+), in ')  # of a traceback
_OWN = "module."  # what the names of the module's parameters begin with in the recording


@dataclass(frozen=True)
class Operation:
    """An operation that was recorded."""

    tensor: str  # what its result is called in a file
    place: str  # which operation it is, and where forward() calls it

    @staticmethod
    def of(node: Node, tensor: str) -> Operation:
        calls = _CALLER.findall(node.meta.get("stack_trace") or "")
        lines = [call for call in calls if is_users_file(call[0])]
        return Operation(tensor, f"operation {node.name}" + (f" at {lines[-1][0]}:{lines[-1][1]}" if lines else ""))


@dataclass(frozen=True, eq=False)
class Recorded:
    """A module's operations as a module of torch's, which takes the input and answers with a tuple of tensors.

    These are the tensors that forward() returns, and after them the results of `operations`, which depend on the input
    and are floats.
    """

    module: GraphModule
    answers: tuple[Operation, ...]
    operations: tuple[Operation, ...]

    @property
    def tensors(self) -> list[str]:
        """Return what the tensors are called in a file."""
        return [operation.tensor for operation in (*self.answers, *self.operations)]


def captured(module: torch.nn.Module, x: Tensor, ordinary: Run) -> Recorded:
    """Record the module on inputs like x, (*input)."""
    with fresh(module):
        program = torch.export.export(_AsOrdinary(module, ordinary), (x,), strict=False)
    recorded = program.module(check_guards=False)
    assert isinstance(recorded, GraphModule)
    if not all(_written_anew(node) for node in list(recorded.graph.nodes) if _writes(node)):
        recorded = program.run_decompositions({}).module(check_guards=False)
        assert isinstance(recorded, GraphModule)
    for node in list(recorded.graph.nodes):
        _simplify(recorded, node)
    return _closed(recorded)


class _AsOrdinary(torch.nn.Module):
    """The module, which cannot tell that it is exported."""

    def __init__(self, module: torch.nn.Module, ordinary: Run) -> None:
        super().__init__()
        self.module = module
        self.training = module.training
        self._ordinary = ordinary

    def forward(self, x: Tensor) -> Any:
        with _not_exporting(), made_again(self.module, self._ordinary):
            return self.module(x)


@contextmanager
def _not_exporting() -> Iterator[None]:
    """Let torch.compiler say that nothing is compiled or exported, as it does when the module is called."""
    flags = ("_is_compiling_flag", "_is_exporting_flag", "_is_non_strict_tracing_flag")
    before = {flag: getattr(torch.compiler, flag) for flag in flags if hasattr(torch.compiler, flag)}
    try:
        for flag in before:
            setattr(torch.compiler, flag, False)
        yield
    finally:
        for flag, value in before.items():
            setattr(torch.compiler, flag, value)


def _writes(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


# Operations whose results have memory that nothing else has.
_FRESH = re.compile(
    r"aten::(conv\w*|linear|addmm|bmm|matmul|mm|(batch|layer|group|instance)_norm|add|sub|rsub|mul|div|neg|relu|gelu|silu"
    r"|sigmoid|tanh|leaky_relu|elu|hard\w+|softmax|softplus|exp|log|sqrt|cat|stack|clone|lift_fresh_copy|zeros|ones|full"
    r"|\w+_pool\dd|upsample_\w+|mean|sum|clamp)"
)


def _written_anew(node: Node) -> bool:
    """Write an operation in place as one with a result of its own, where no other tensor has the memory."""
    target, (source, *_) = node.target, node.args
    assert isinstance(target, torch._ops.OpOverload)
    name = target._schema.name.removeprefix("aten::")
    if not isinstance(source, Node) or not _is_fresh(source) or name[-1] != "_":
        return False
    order = {other: k for k, other in enumerate(node.graph.nodes)}
    before = [user for user in source.users if order[user] < order[node]]
    if not all(_is_fresh(user) for user in before):  # it may be a view, which is written to as well
        return False
    if name == "detach_":
        node.replace_all_uses_with(source)
        node.graph.erase_node(node)
        return True
    types = {value.dtype for one in node.all_input_nodes if isinstance(value := one.meta.get("val"), Tensor)}
    if len(types) != 1 or not next(iter(types)).is_floating_point:  # in place nothing becomes of another type
        return False
    anew = getattr(getattr(aten, name[:-1], None), target._overloadname, None)
    if anew is None or len(anew._schema.arguments) != len(target._schema.arguments):
        return False
    source.replace_all_uses_with(node, delete_user_cb=lambda user: order[user] > order[node])
    node.target = anew
    return True


def _is_fresh(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and _FRESH.fullmatch(schema.name) is not None


# --- the graph, made plain ----------------------------------------------------------------------------------------


def _closed(recorded: GraphModule) -> Recorded:
    """Return the graph with its constants under the module's own names, one input, and a tuple of tensors."""
    graph, root = recorded.graph, torch.nn.Module()
    for node in graph.find_nodes(op="get_attr"):
        value = _attribute(recorded, str(node.target))
        node.target = str(node.target).removeprefix(_OWN)
        _place(root, node.target, value)
    (output,) = graph.find_nodes(op="output")
    answers = [leaf for leaf in tree_leaves(output.args) if isinstance(leaf, Node)]
    output.args = (tuple(answers),)
    graph.set_codegen(CodeGen())
    graph._tracer_cls = _Leaves
    closed = GraphModule(root, graph)
    closed.graph.eliminate_dead_code()
    (output,) = closed.graph.find_nodes(op="output")
    nodes = _operations(closed.graph)
    operations = tuple(Operation.of(node, f"result of {node.name}") for node in nodes)
    tensors = [f"output {k}" for k in range(len(answers))] if len(answers) > 1 else ["output"]
    returned = tuple(map(Operation.of, output.args[0], tensors))
    output.args = ((*output.args[0], *nodes),)
    for node in closed.graph.nodes:
        node.meta.clear()  # its tensors without values can be neither copied nor pickled
    closed.recompile()
    return Recorded(closed, returned, operations)


class _Leaves(torch.fx.Tracer):
    """Makes the graph again where it is unpickled, with the functions of this file as operations."""

    def __init__(self) -> None:
        super().__init__(autowrap_functions=(_placed, _pooled, *_SAME.values(), *_IN_FLOAT64.values()))


def _operations(graph: Graph) -> tuple[Node, ...]:
    """Return the operations that depend on the input and whose results are floats."""
    depending: set[Node] = set()
    for node in graph.nodes:
        if node.op == "placeholder" or any(source in depending for source in node.all_input_nodes):
            depending.add(node)
    called = [node for node in graph.nodes if node.op == "call_function" and node in depending]
    return tuple(node for node in called if _is_float(node.meta.get("val")))


def _dtype(node: Node) -> torch.dtype:
    value = node.meta["val"]
    dtype: torch.dtype = (value if isinstance(value, Tensor) else value[0]).dtype
    return dtype


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _attribute(module: torch.nn.Module, name: str) -> Any:
    value: Any = module
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _place(root: torch.nn.Module, name: str, value: Any) -> None:
    *path, last = name.split(".")
    for part in path:
        if part not in root._modules:
            root.add_module(part, torch.nn.Module())
        root = root._modules[part]  # type: ignore[assignment]
    if isinstance(value, Tensor) and not isinstance(value, torch.nn.Parameter):
        root.register_buffer(last, value)
    else:
        setattr(root, last, value)


def _simplify(recorded: GraphModule, node: Node) -> None:
    """Replace an operation by others of the same value."""
    graph = recorded.graph
    if node.target is aten.copy_.default:  # into the input: the caller's copy of it, which nobody asks for
        node.replace_all_uses_with(node.args[1])  # type: ignore[arg-type]
        graph.erase_node(node)
    elif node.target in _VIEWS:
        node.args = (*node.args[:2], _constant(recorded, node, _places(node)))
        node.kwargs = {}
        node.target = _placed
    elif _lacks_batch(node):
        node.args, node.target = (str(node.target), *node.args), _pooled
    elif node.target in _IN_FLOAT64 and _dtype(node) == torch.float64:
        node.target = _IN_FLOAT64[node.target]
    elif node.target in _SAME:
        node.target = _SAME[node.target]
    elif node.target is aten._assert_tensor_metadata.default:
        graph.erase_node(node)


def _constant(recorded: GraphModule, before: Node, value: Tensor) -> Node:
    name = f"places_of_{before.name}"
    recorded.register_buffer(name, value)
    with recorded.graph.inserting_before(before):
        return recorded.graph.get_attr(name)


_VIEWS: dict[Any, Callable[..., Tensor]] = {
    aten.select_scatter.default: torch.select,
    aten.slice_scatter.default: aten.slice.Tensor,
    aten.diagonal_scatter.default: torch.diagonal,
    aten.as_strided_scatter.default: torch.as_strided,
}


def _places(node: Node) -> Tensor:
    """Return where each entry of the result stands in the entries of whole and part, one after the other."""
    whole, _, *view = node.args
    assert isinstance(whole, Node)
    shape = whole.meta["val"].shape
    places = torch.arange(shape.numel()).reshape(shape)
    part = _VIEWS[node.target](places, *view, **node.kwargs)
    part.copy_(shape.numel() + torch.arange(part.numel()).reshape(part.shape))
    return places


def _placed(whole: Tensor, part: Tensor, places: Tensor) -> Tensor:
    entries = torch.cat([whole.reshape(-1), part.reshape(-1)])
    return torch.index_select(entries, 0, places.reshape(-1)).reshape(places.shape)


# Pooling over so many axes, which torch's exporter writes for inputs with a batch axis alone.
_POOLS = {f"{kind}_pool{axes}d": axes for kind in ("max", "avg", "adaptive_avg", "adaptive_max") for axes in (1, 2, 3)}


def _lacks_batch(node: Node) -> bool:
    """Say whether this pools an input without a batch axis."""
    schema = getattr(node.target, "_schema", None)
    axes = None if schema is None else _POOLS.get(str(schema.name).partition("::")[2])
    return axes is not None and isinstance(node.args[0], Node) and node.args[0].meta["val"].dim() == axes + 1


def _pooled(pool: str, x: Tensor, *more: Any, **options: Any) -> Any:
    """Pool an input without a batch axis, by the operation of this name."""
    found = attrgetter(pool)(torch.ops)(x[None], *more, **options)
    return found[0] if isinstance(found, Tensor) else tuple(part[0] for part in found)


def _filled(whole: Tensor, value: float | Tensor) -> Tensor:
    return torch.zeros_like(whole) + value


def _zeros(whole: Tensor) -> Tensor:
    return torch.zeros_like(whole)


def _copied(whole: Tensor, part: Tensor, non_blocking: bool = False) -> Tensor:
    return part.to(whole.dtype).expand([int(size) for size in whole.shape])


def _floor_divided(one: Any, other: Any) -> Tensor:
    return torch.div(one, other, rounding_mode="floor")


def _cloned(value: Tensor) -> Tensor:
    return value.clone()


def _normalised(x: Tensor, weight: Any, bias: Any, mean: Any, variance: Any, momentum: float, eps: float) -> Any:
    return aten.batch_norm(x, weight, bias, mean, variance, False, momentum, eps, False), mean, variance


def _softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """Compute softplus with its threshold, above which it is x itself: torch's exporter has no threshold.

    torch's own, 20, is how it computes log(1 + exp(x)) where float32 has no other number: that is no part of what
    softplus is. In float64 it shows.
    """
    if threshold >= 20 and x.dtype != torch.float64:
        return F.softplus(x, beta)
    return torch.where(x * beta > threshold, x, F.softplus(x, beta))


def _product(one: Tensor, other: Tensor) -> Tensor:
    return (one * other).sum()


def _converted(value: Tensor, *, dtype: torch.dtype | None = None, **elsewhere: Any) -> Tensor:
    return value.clone() if dtype is None else value.to(dtype)


_SAME: dict[Any, Callable[..., Tensor]] = {
    aten.copy.default: _copied,
    aten.zero.default: _zeros,
    aten.fill.Scalar: _filled,
    aten.fill.Tensor: _filled,
    aten.floor_divide.default: _floor_divided,
    aten.floor_divide.Scalar: _floor_divided,
    aten._native_batch_norm_legit_no_training.default: _normalised,
    aten.softplus.default: _softplus,
    aten.vdot.default: _product,
    aten._to_copy.default: _converted,
    aten._unsafe_view.default: torch.reshape,
    aten.lift_fresh_copy.default: _cloned,
    aten.lift_fresh.default: _cloned,
    aten.alias.default: _cloned,
}


# In float64, operations with a number that ONNX keeps as an attribute, which is float32 whatever the tensors are.


def _leaky_in_float64(x: Tensor, slope: float = 0.01) -> Tensor:
    return F.prelu(x, torch.tensor([slope], dtype=x.dtype))


def _randomised_in_float64(x: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Tensor:
    return _leaky_in_float64(x, (lower + upper) / 2)


def _normalised_in_float64(
    x: Tensor,
    weight: Any,
    bias: Any,
    mean: Tensor,
    variance: Tensor,
    *options: Any,
) -> Tensor:
    """Normalise by what is known of the batches: one factor and one summand for each channel."""
    _, _, eps, _ = options  # whether it trains, its momentum, and whether cuDNN may be used
    factor = torch.rsqrt(variance + eps) if weight is None else weight / torch.sqrt(variance + eps)
    summand = -mean * factor if bias is None else bias - mean * factor
    channels = [-1] + [1] * (x.dim() - 2)
    return x * factor.reshape(channels) + summand.reshape(channels)


def _standardised_in_float64(
    x: Tensor, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5, fast: bool = True
) -> Tensor:
    axes = list(range(-len(shape), 0))
    centred = x - x.mean(axes, keepdim=True)
    standard = centred / torch.sqrt((centred * centred).mean(axes, keepdim=True) + eps)
    weighted = standard if weight is None else standard * weight
    return weighted if bias is None else weighted + bias


def _legit_in_float64(
    x: Tensor, weight: Any, bias: Any, mean: Tensor, variance: Tensor, momentum: float, eps: float
) -> Any:
    return _normalised_in_float64(x, weight, bias, mean, variance, False, momentum, eps, False), mean, variance


def _native_in_float64(x: Tensor, shape: Sequence[int], weight: Any, bias: Any, eps: float) -> Any:
    return _standardised_in_float64(x, shape, weight, bias, eps), x, x


def _with_product(whole: Tensor, one: Tensor, other: Tensor, *, value: float = 1) -> Tensor:
    return whole + value * one * other


def _with_quotient(whole: Tensor, one: Tensor, other: Tensor, *, value: float = 1) -> Tensor:
    return whole + value * one / other


_IN_FLOAT64: dict[Any, Callable[..., Any]] = {
    aten.leaky_relu.default: _leaky_in_float64,
    aten.rrelu.default: _randomised_in_float64,
    aten.batch_norm.default: _normalised_in_float64,
    aten._native_batch_norm_legit_no_training.default: _legit_in_float64,
    aten.layer_norm.default: _standardised_in_float64,
    aten.native_layer_norm.default: _native_in_float64,
    aten.addcmul.default: _with_product,
    aten.addcdiv.default: _with_quotient,
}
