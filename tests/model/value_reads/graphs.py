"""Parts that have a graph of their own: scripts, compiled functions, custom operators, autograd Functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from model.value_reads.net import caught


class Lying(torch.autograd.Function):
    """Twice its argument, says forward(); nothing, says the graph that it asks for."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        return z * 2

    @staticmethod
    def symbolic(g: Any, z: Any) -> Any:
        return g.op("Mul", z, g.op("Constant", value_t=torch.tensor(0.0)))


class LyingShape(torch.autograd.Function):
    """The graph is a number of no input."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        return z.clone()

    @staticmethod
    def symbolic(g: Any, z: Any) -> Any:
        return g.op("Constant", value_t=torch.zeros(1, 2))


class ByNumpy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        return torch.from_numpy(np.maximum(z.numpy(), 0))


class ByData(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        return z.data + 0


class InForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        return torch.ones(1, 2) if z.sum().item() > 0 else torch.zeros(1, 2)


@torch.jit.script
def scripted_branch(h: Tensor) -> Tensor:
    if bool(h.sum() > 0):
        return torch.ones(1, 2)
    return torch.zeros(1, 2)


@torch.jit.script
def scripted_loop(h: Tensor) -> Tensor:
    total = torch.zeros(1, 2)
    for _ in range(int(h.ceil().sum().item())):
        total = total + 1
    return total


@torch.jit.script
def scripted_while(h: Tensor) -> Tensor:
    total = torch.zeros(1, 2)
    while bool(total.sum() < h.sum()):
        total = total + 1
    return total


@torch.jit.script
def scripted_item(h: Tensor) -> Tensor:
    return torch.full((1, 2), h.max().item())


@torch.jit.script
def scripted_error(h: Tensor) -> Tensor:
    assert bool(h.sum() <= 0), "near"
    return torch.zeros(1, 2)


@torch.jit.script_if_tracing
def scripted_if_tracing(h: Tensor) -> Tensor:
    if bool(h.sum() > 0):
        return torch.ones(1, 2)
    return torch.zeros(1, 2)


def by_scripted_error(net: Any, h: Tensor) -> Tensor:
    return torch.ones(1, 2) if caught(lambda: scripted_error(h)) else torch.zeros(1, 2)


@functools.cache
def compiled_branch() -> Callable[[Tensor], Tensor]:
    """Return a function that eager code runs, compiled without a compiler."""
    return torch.compile(lambda h: torch.ones(1, 2) if h.sum() > 0 else torch.zeros(1, 2), backend="eager")


@functools.cache
def compiled_wrongly() -> Callable[[Tensor], Tensor]:
    """Return a function whose back end runs something else than its graph."""
    return torch.compile(lambda h: h * 0.0, backend=lambda graph, inputs: lambda *args: [args[0] * 1.0])


@torch.compiler.assume_constant_result
def assumed_constant(h: Tensor) -> float:
    return h.max().item()


@torch.compiler.disable
def not_compiled(h: Tensor) -> float:
    return h.max().item()


@torch._dynamo.allow_in_graph
def allowed(h: Tensor) -> Tensor:
    return torch.tensor(h.tolist())


@torch._dynamo.nonstrict_trace
def traced_loosely(h: Tensor) -> Tensor:
    return torch.tensor(h.tolist())


@torch.jit.ignore
def ignored(h: Tensor) -> Tensor:
    return torch.tensor(h.tolist())


@torch.library.custom_op("value_reads::positive", mutates_args=())
def positive(h: Tensor) -> bool:
    return h.sum().item() > 0


@positive.register_fake
def _(h: Tensor) -> bool:
    return False


@torch.library.custom_op("value_reads::kept", mutates_args=())
def kept(h: Tensor) -> Tensor:
    return torch.from_numpy(h.numpy().copy())


@kept.register_fake
def _(h: Tensor) -> Tensor:
    return torch.zeros(1, 2)


@torch.library.custom_op("value_reads::unfaked", mutates_args=())
def unfaked(h: Tensor) -> Tensor:
    return h.clone()


@torch.library.custom_op("value_reads::written", mutates_args=("memory",))
def written_by_operator(memory: Tensor, h: Tensor) -> None:
    memory.copy_(h)


@torch.library.custom_op("value_reads::secretly", mutates_args=())
def secretly(memory: Tensor, h: Tensor) -> Tensor:
    """Write to an argument that it does not name."""
    memory.copy_(h)
    return h.clone()


@secretly.register_fake
def _(memory: Tensor, h: Tensor) -> Tensor:
    return torch.zeros(1, 2)


_LIBRARY = torch.library.Library("value_reads", "FRAGMENT")
_LIBRARY.define("composite(Tensor h) -> Tensor")
_LIBRARY.impl("composite", lambda h: torch.full((1, 2), h.max().item()), "CompositeImplicitAutograd")
_LIBRARY.define("undeclared(Tensor(a) h) -> Tensor(a)")
_LIBRARY.impl("undeclared", lambda h: torch.tensor(h.tolist()), "CPU")
_LIBRARY.impl("undeclared", lambda h: torch.zeros_like(h), "Meta")


def by_written(net: Any, h: Tensor) -> Tensor:
    memory = torch.zeros(1, 2)
    torch.ops.value_reads.written(memory, h)
    return memory + 0


def by_secret(net: Any, h: Tensor) -> Tensor:
    memory = torch.zeros(1, 2)
    torch.ops.value_reads.secretly(memory, h)
    return memory + 0


def by_while_loop(net: Any, h: Tensor) -> Tensor:
    from torch._higher_order_ops.while_loop import while_loop

    return while_loop(
        lambda n, t: n < h.ceil().sum(), lambda n, t: (n + 1, t + 1), (torch.zeros(()), torch.zeros(1, 2))
    )[1]


def by_exported(net: Any, h: Tensor) -> Tensor:
    """Exported anew at each call, with what was copied out of the input."""
    value = h.max().item()

    class Shifted(nn.Module):
        def forward(self, t: Tensor) -> Tensor:
            return t + value

    return torch.export.export(Shifted(), (torch.zeros(1, 2),)).module()(torch.zeros(1, 2))


ONES: dict[str, Any] = {"dtype": torch.float32, "shape": (1, 2)}

GRAPHS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "function-symbolic": lambda net, h: Lying.apply(h),
    "function-symbolic-constant": lambda net, h: LyingShape.apply(h),
    "function-numpy": lambda net, h: ByNumpy.apply(h),
    "function-data": lambda net, h: ByData.apply(h),
    "function-branch": lambda net, h: InForward.apply(h),
    "script-branch": lambda net, h: scripted_branch(h),
    "script-loop": lambda net, h: scripted_loop(h),
    "script-while": lambda net, h: scripted_while(h),
    "script-item": lambda net, h: scripted_item(h),
    "script-error": by_scripted_error,
    "script-if-tracing": lambda net, h: scripted_if_tracing(h),
    "script-ignored": lambda net, h: ignored(h),
    "compiled-branch": lambda net, h: compiled_branch()(h),
    "compiled-wrongly": lambda net, h: compiled_wrongly()(h),
    "assumed-constant": lambda net, h: torch.ones(1, 2) * assumed_constant(h),
    "not-compiled": lambda net, h: torch.ones(1, 2) * not_compiled(h),
    "allowed-in-graph": lambda net, h: allowed(h),
    "traced-loosely": lambda net, h: traced_loosely(h),
    "while-loop": by_while_loop,
    "exported": by_exported,
    "cond": lambda net, h: torch.cond(h.sum() > 0, lambda t: t + 1, lambda t: t * 1, (h,)),
    "operator-with-lying-fake": lambda net, h: torch.ops.value_reads.kept(h),
    "operator-without-fake": lambda net, h: torch.ops.value_reads.unfaked(h),
    "operator-that-writes": by_written,
    "operator-that-writes-secretly": by_secret,
    "operator-composite": lambda net, h: torch.ops.value_reads.composite(h),
    "operator-undeclared": lambda net, h: torch.ops.value_reads.undeclared(h),
    "onnx-operator": lambda net, h: h * (1 - torch.onnx.ops.symbolic("Identity", (net.ones,), **ONES)),
}
