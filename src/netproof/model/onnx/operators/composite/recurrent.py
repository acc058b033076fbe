"""Converters of LSTM, GRU and RNN: unrolled, one copy of the cell for every step of the sequence.

A gate is a relaxed sigmoid or tanh of an affine form of the step's input and the state before; a state is a sum of
relaxed products. A state that is a constant, as the first one mostly is, stays one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from netproof.model.affine import Sum
from netproof.model.moves import Transpose
from netproof.model.nonlinear import Relu
from netproof.model.nonlinear.smooth import Sigmoid, Tanh
from netproof.model.onnx.context import Context, Ref, Value, converts
from netproof.model.onnx.operators.arithmetic import added, linear, scale, transposed
from netproof.model.onnx.operators.hinges import clipped
from netproof.model.onnx.operators.moves import joined, reshape, select
from netproof.model.onnx.operators.products import product
from netproof.model.ops import Nonlinear
from netproof.model.origin import constant
from netproof.model.origin.constant import Constant

DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
ACTIVATIONS: dict[str, Nonlinear] = {"sigmoid": Sigmoid(), "tanh": Tanh(), "relu": Relu()}
Activation = Callable[[Ref], Ref]


@dataclass(frozen=True)
class Cell:
    """One direction of a recurrent node: weights by gate, biases of the input and of the state, activations."""

    c: Context
    weight: tuple[Constant, ...]  # (hidden, input) by gate
    again: tuple[Constant, ...]  # (hidden, hidden) by gate: of the state before
    bias: tuple[Constant | None, ...]  # (hidden,) by gate: of the input
    bias_again: tuple[Constant | None, ...]
    peephole: tuple[Constant, ...]  # (hidden,) by gate; empty: none
    activations: tuple[Activation, ...]

    def gate(self, k: int, x: Ref, h: Value) -> Ref:
        """Add W x + R h + b of gate k, both biases in b."""
        biases = [b for b in (self.bias[k], self.bias_again[k]) if b is not None]
        own = linear(self.c, x, self.weight[k], constant.add(*biases) if len(biases) == 2 else None)
        return plus(self.c, own, self.of_state(k, h, None))

    def of_state(self, k: int, h: Value, bias: Constant | None) -> Value:
        """Return R h (+ b) of gate k; a constant where h is one."""
        if isinstance(h, Ref):
            return linear(self.c, h, self.again[k], bias)
        self.c.claim(h.shape)
        product_ = constant.matrix_product(h, transposed(self.again[k]))
        return product_ if bias is None else constant.add(product_, bias)


Step = Callable[[Cell, Ref, tuple[Value, ...]], tuple[Value, ...]]  # from x and the states before to the new ones


def _lstm_step(cell: Cell, x: Ref, states: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return h and c after one step: c' = f·c + i·g, h' = o·tanh(c'); gates stand in the order i, o, f, g."""
    c, (h, before) = cell.c, states
    squash, candidate, out = cell.activations

    def peeped(gate: Ref, k: int, state: Value) -> Ref:
        return plus(c, gate, multiplied(c, state, cell.peephole[k])) if cell.peephole else gate

    i = squash(peeped(cell.gate(0, x, h), 0, before))
    f = squash(peeped(cell.gate(2, x, h), 2, before))
    g = candidate(cell.gate(3, x, h))
    after = plus(c, product(c, i, g), multiplied(c, f, before))
    o = squash(peeped(cell.gate(1, x, h), 1, after))
    return product(c, o, out(after)), after


def _gru_step(cell: Cell, x: Ref, states: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return h after one step: h' = n + z·(h − n), one product instead of two; gates stand in the order z, r, n."""
    c, (h,) = cell.c, states
    squash, candidate = cell.activations
    z, r = (squash(cell.gate(k, x, h)) for k in (0, 1))
    own = linear(c, x, cell.weight[2], cell.bias[2])
    if c.attr("linear_before_reset", 0):
        inner: Value = product(c, r, cell.of_state(2, h, cell.bias_again[2]))
    else:
        inner = cell.of_state(2, multiplied(c, r, h), cell.bias_again[2])
    n = candidate(plus(c, own, inner))
    gap = scale(c, n, constant.constant(-1.0), h) if isinstance(h, Constant) else c.emit(Sum((1, -1)), h, n)
    return (plus(c, n, product(c, z, gap)),)


def _rnn_step(cell: Cell, x: Ref, states: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return h after one step: h' = f(W x + R h + b)."""
    return (cell.activations[0](cell.gate(0, x, states[0])),)


def multiplied(c: Context, left: Value, right: Value) -> Value:
    """Return left · right, a constant where both are, or where one is 0."""
    if isinstance(left, Constant) and isinstance(right, Constant):
        return constant.multiply(left, right)
    zero = next((k for k in (left, right) if isinstance(k, Constant) and is_zero(k)), None)
    return product(c, left, right) if zero is None else zero


def plus(c: Context, x: Ref, value: Value) -> Ref:
    """Return x + value; x itself where that is 0."""
    return x if isinstance(value, Constant) and is_zero(value) else added(c, x, value)


def is_zero(k: Constant) -> bool:
    return k.radius is None and not k.value.any()


# --- the node ------------------------------------------------------------------------------------------------


@converts("LSTM")
def _lstm(c: Context) -> list[Value]:
    """Unroll it: relaxed gates and products, step by step, in every direction and layout; no sequence lengths."""
    if c.attr("input_forget", 0):
        c.refuse("its input and forget gates are coupled", "export it without input_forget")
    if c.attr("clip", 0.0):  # to the standard the cell is an input of an activation too; onnxruntime does not clip it
        c.refuse("it clips, and runtimes differ in whether the cell is clipped", "export it without clip")
    return _unrolled(c, _lstm_step, 4, ("sigmoid", "tanh", "tanh"), (5, 6), peepholes=7)


@converts("GRU")
def _gru(c: Context) -> list[Value]:
    """Unroll it: relaxed gates and products, step by step, in every direction and layout; no sequence lengths."""
    return _unrolled(c, _gru_step, 3, ("sigmoid", "tanh"), (5,))


@converts("RNN")
def _rnn(c: Context) -> list[Value]:
    """Unroll it: one relaxed tanh, sigmoid or ReLU a step, in every direction and layout; no sequence lengths."""
    return _unrolled(c, _rnn_step, 1, ("tanh",), (5,))


def _unrolled(
    c: Context, step: Step, gates: int, usual: tuple[str, ...], initial: tuple[int, ...], peepholes: int | None = None
) -> list[Value]:
    """Return Y and the last states. `initial`: where the first states stand among the inputs."""
    x, batch_first = c.node(0), bool(c.attr("layout", 0))
    if len(x.shape) != 3:
        c.refuse(f"its input of shape {x.shape} does not have three axes", "check it with onnx.checker")
    x = _turned(c, x) if batch_first else x
    directions = DIRECTIONS.get(c.attr("direction", "forward"))
    if directions is None:
        c.refuse(f"direction {c.attr('direction')!r}", "check it with onnx.checker")
    _check_lengths(c, x)
    cells = [_cell(c, d, len(directions), gates, usual, peepholes) for d in range(len(directions))]
    hidden = cells[0].again[0].shape[0]
    ends: list[tuple[Value, ...]] = []
    outputs: list[list[Value]] = []
    for d, (cell, backwards) in enumerate(zip(cells, directions, strict=True)):
        shape = (x.shape[1], hidden)
        states = tuple(_state(c, i, d, len(directions), shape, batch_first) for i in initial)
        found: list[Value] = []
        for t in reversed(range(x.shape[0])) if backwards else range(x.shape[0]):
            now = reshape(c, select(c, x, 0, np.array([t])), x.shape[1:])
            states = step(cell, now, states)
            found.append(states[0])
        outputs.append(found[::-1] if backwards else found)
        ends.append(states)
    y = joined(c, [_stack(c, each, 1) for each in zip(*outputs, strict=True)], 0)  # (seq, direction, batch, hidden)
    last = [_stack(c, each, 0) for each in zip(*ends, strict=True)]
    if not batch_first:
        return [y, *last]
    return [c.emit(Transpose((2, 0, 1, 3)), y), *(_turned(c, state) for state in last)]


def _stack(c: Context, values: Sequence[Value], lead: int) -> Ref:
    """Return values (batch, hidden) by direction as (direction, batch, hidden), with `lead` axes of 1 before."""
    rows = [value for value in values if isinstance(value, Ref)]
    if len(rows) != len(values):
        c.refuse("a state does not depend on the network's input", "export it with the layer's own states")
    return joined(c, [reshape(c, row, (*(1,) * lead, 1, *row.shape)) for row in rows], lead)


def _turned(c: Context, x: Ref) -> Ref:
    """Swap the first two axes."""
    return c.emit(Transpose((1, 0, 2)), x)


def _check_lengths(c: Context, x: Ref) -> None:
    lengths = c.integers(4)
    if lengths is not None and any(length != x.shape[0] for length in lengths):
        c.refuse(f"its sequence lengths {lengths[:8]} are not all {x.shape[0]}", "export with full sequences")


def _state(c: Context, position: int, d: int, count: int, shape: tuple[int, int], batch_first: bool) -> Value:
    """Return the first state of one direction, (batch, hidden): zero where it is not given."""
    given = c.input(position)
    if given is None:
        return constant.constant(np.zeros(shape))
    expected = (shape[0], count, shape[1]) if batch_first else (count, *shape)
    if given.shape != expected:
        c.refuse(f"its first state of shape {given.shape} is not of shape {expected}")
    axis = 1 if batch_first else 0
    if isinstance(given, Constant):
        return given.moved(lambda entries: entries.take(d, axis))
    return reshape(c, select(c, given, axis, np.array([d])), shape)


def _cell(c: Context, d: int, directions: int, gates: int, usual: tuple[str, ...], peepholes: int | None) -> Cell:
    hidden = c.constant(2).shape[-1]

    def parts(position: int, count: int) -> tuple[Constant, ...]:
        """Return an input of this direction by gate."""
        whole = c.constant(position)
        if len(whole.shape) not in (2, 3) or whole.shape[:2] != (directions, count * hidden):
            c.refuse(f"its input {position} of shape {whole.shape} does not fit {directions} x {count * hidden}")
        return tuple(whole.moved(lambda k: k[d, g * hidden : (g + 1) * hidden]) for g in range(count))  # noqa: B023

    none: tuple[Constant | None, ...] = (None,) * gates
    biases = none + none if c.input(3) is None else parts(3, 2 * gates)
    # Peepholes are those of i, o and f; the candidate has none, so three of four gates.
    peeped = () if peepholes is None or c.input(peepholes) is None else parts(peepholes, 3)
    return Cell(c, parts(1, gates), parts(2, gates), biases[:gates], biases[gates:], peeped, _activations(c, d, usual))


def _activations(c: Context, d: int, usual: tuple[str, ...]) -> tuple[Activation, ...]:
    """Return what the node says for one direction, each behind a clip where there is one."""
    if c.attr("activation_alpha") or c.attr("activation_beta"):
        c.refuse("its activations have parameters", "export it with Sigmoid, Tanh or Relu")
    named = c.attr("activations") or []
    names = [n.decode() if isinstance(n, bytes) else str(n) for n in named][d * len(usual) : (d + 1) * len(usual)]
    names = [name.lower() for name in names] or list(usual)
    unknown = [name for name in names if name not in ACTIVATIONS]
    if unknown or len(names) != len(usual):
        c.refuse(f"its activations {names}", "export it with Sigmoid, Tanh or Relu")
    limit = constant.constant(float(c.attr("clip", 0.0)))

    def one(name: str) -> Activation:
        return lambda x: c.emit(ACTIVATIONS[name], clipped(c, x, constant.negate(limit), limit) if limit.value else x)

    return tuple(one(name) for name in names)
