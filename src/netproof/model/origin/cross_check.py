"""The comparison of a reading with onnxruntime, one node of the file at a time.

A bound over a whole network grows with its depth until it would excuse anything, so each step is compared by itself:
onnxruntime runs the file with every intermediate tensor as an output and nothing optimised; the nodes of the graph
that were made of one node of the file are evaluated in float64 from *onnxruntime's own* inputs of that step; and the
two must agree within what one step may round. Four comparisons together cover the way from the file to the graph:

1. constants: what was read is onnxruntime's bit for bit, what was folded within the rounding of its operations;
2. steps: as above;
3. links: each step takes its inputs where earlier steps put them, so that the graph as read is made of the steps;
4. the simplified graph has, node by node, the values of the graph as read, within the rounding of float64.

What a runtime may do within a step: add in any order, fuse products and sums, start from the bias, apply a factor
before or after a sum, multiply by a rounded reciprocal. A sum of n products, bias included, rounds each term n times
at most; `_EXTRA_ROUNDINGS` more pay for the factor and the reciprocal. Factors that are folded into weights, such as
Gemm's alpha or all of a batch normalisation (scale / sqrt(variance + epsilon)), are charged through the slack of
`model.origin.constant`. It holds for direct sums, which onnxruntime's CPU kernels are, not for Winograd or FFT. In
float16 it computes in float32 and rounds what it tells, but hands on what it has: a step may take its inputs before
they were rounded, whatever is told of them.

The session that replays witnesses is not compared: it is onnxruntime with its default optimisations, `sat` means what
that session answers, `unsat` never rests on it, and the comparison would say nothing about the reading.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from netproof.core.machine.allowance import unless_out_of_memory
from netproof.errors import ModelError
from netproof.model.evaluate import AS_STORED, Arithmetic, between, error_of_part, evaluate_part, values_of_part
from netproof.model.graph import Node
from netproof.model.network import Network
from netproof.model.ops import Affine
from netproof.model.origin.trace import Step, Stored, digest
from netproof.numerics import FLOATS, coarseness, generator, rounding, size_behind, with_vanishing

# Roundings of a term beyond those of its sum: a factor applied to it late, a rounded reciprocal for a quotient.
_EXTRA_ROUNDINGS = 2

# The size of a step's own inputs where it must be run alone: the second one for weights near the largest float32.
_SIZES = (1.0, 2.0**-20)

# Entries of all tensors at the points that are compared together.
_TOGETHER = 1 << 22


class Disagreement(Exception):
    """Two ways to compute the same differ by more than they may round."""

    def __init__(self, place: str, what: str) -> None:
        super().__init__(f"{place}: {what}")
        self.place, self.what = place, what


def cross_check(network: Network, points: Tensor) -> None:
    """Compare the reading with onnxruntime at points (batch, *input); a mismatch is an error that names the node."""
    try:
        _cross_check(network, points)
    except Disagreement as error:
        raise ModelError(
            f"netproof and onnxruntime disagree {error.what}",
            file=network.path,
            place=error.place,
            remedy="please report the model: netproof must not be trusted on it",
        ) from error


def _cross_check(network: Network, points: Tensor) -> None:
    for part, compare in (("links", _links), ("constants", _constants), ("graph", _graph)):
        if part not in network.agreed:  # these do not depend on the points
            compare(network)
            network.agreed.add(part)
    done: set[Step] = set()
    made = {tensor for step in network.trace.steps for tensor, _ in step.outputs}
    for answers, telling in _answers(network, points):
        done.update(step for step in network.trace.steps if _agrees(network, step, answers, telling, made))
    for step in network.trace.steps:
        tensor, _ = step.outputs[0]
        if step not in done and f"tensor {tensor}" not in network.agreed:
            _alone(network, step)
            network.agreed.add(f"tensor {tensor}")


def _hidden(network: Network, place: str, why: str) -> ModelError:
    return ModelError(
        f"{why}, so that the reading cannot be compared",
        file=network.path,
        place=place,
        remedy="scale the weights so that float32 holds every value",
    )


# --- once for a network -------------------------------------------------------------------------------------


def _links(network: Network) -> None:
    """Check that every tensor is one node of the graph as read, wherever a step makes or takes it.

    The file's inputs are the parts of the graph's input that onnxruntime is given, and the graph's output is made of
    the tensors that onnxruntime answers with.
    """
    trace = network.trace
    known = dict(trace.inputs)
    _inputs(network)
    for step in trace.steps:
        for tensor, index in step.inputs:
            if known.get(tensor) != index:
                raise Disagreement(f"node {step.name!r}", f"on where its input {tensor!r} comes from")
        known.update(step.outputs)
    for tensor, index in trace.outputs:
        if known.get(tensor) != index:
            raise Disagreement(f"output {tensor!r}", "on where it comes from")
    if len(network.outputs) > 1:
        _outputs(network)


def _inputs(network: Network) -> None:
    """Compare each input of the file, as a part of the graph's input, with what onnxruntime is given for it."""
    whole = torch.arange(network.graph.input.size, dtype=torch.float64).reshape(network.input_shape)
    fed = network.feed(whole.numpy())  # past 2^24 float32 merges neighbours, in ours as in theirs
    if [name for name, _ in network.trace.inputs] != list(fed):
        raise Disagreement("the inputs", "on which there are")
    for tensor, index in network.trace.inputs:
        place = f"input {tensor!r}"
        with _computable(place):
            ours = values_of_part(network.trace.nodes, {0: whole[None]}, index)[index][0]
        ours = ours.to(getattr(torch, network.input_dtype)).to(torch.float64)
        if not np.array_equal(ours.numpy(), fed[tensor].astype(np.float64)):
            raise Disagreement(place, "on which numbers it is")


def _outputs(network: Network) -> None:
    """Compare the vector of several outputs with these outputs, at random values of their own."""
    trace, place = network.trace, "the outputs"
    given = _random(network, [index for _, index in trace.outputs])
    if not given:  # all of them are constants, which are compared as such
        return
    index_of = dict(trace.outputs)
    stored = {constant.tensor: constant for constant in trace.constants}
    with _computable(place):
        whole = values_of_part(trace.nodes, given, trace.output)[trace.output]
    start = 0
    for info in network.outputs:
        part = whole[:, start : start + math.prod(info.shape)]
        start += math.prod(info.shape)
        if info.name in index_of:
            same = torch.equal(part, given[index_of[info.name]].reshape(whole.shape[0], -1))
        else:
            constant = stored.get(info.name)
            same = constant is not None and _is_stored(constant, part[0].numpy())
        if not same:
            raise Disagreement(f"output {info.name!r}", "on where it stands")
    if start != whole.shape[1]:
        raise Disagreement(place, "on how many numbers they are")


def _is_stored(stored: Stored, numbers: np.ndarray) -> bool:
    if stored.constant is None:
        return digest(numbers) == stored.digest
    return np.array_equal(stored.constant.value.reshape(-1).astype(np.float64), numbers)


def _constants(network: Network) -> None:
    stored = network.trace.constants
    if stored:
        answers = network.tensors(np.zeros(network.input_shape), [constant.tensor for constant in stored])
        for constant, answer in zip(stored, answers, strict=True):
            _constant(network, constant, np.asarray(answer))


def _constant(network: Network, stored: Stored, theirs: np.ndarray) -> None:
    if theirs.shape != stored.shape:
        raise Disagreement(stored.place, f"on its shape: {stored.shape} against {theirs.shape}")
    if stored.constant is None:
        if theirs.dtype.kind != "f" or digest(theirs) != stored.digest:
            raise Disagreement(stored.place, f"on the numbers of the constant {stored.tensor!r}")
        return
    ours, slack = stored.constant.value, stored.constant.slack
    with np.errstate(all="ignore"):
        gap = np.abs(theirs.astype(np.float64) - ours.astype(np.float64))
        bad = ~((theirs == ours) | (gap <= (0.0 if slack is None else slack)))  # equal are masks of −∞ too
    if bad.any():
        worst = int(np.argmax(bad))
        most = 0.0 if slack is None else float(slack.flat[worst])
        raise _difference(stored.place, worst, float(ours.flat[worst]), float(theirs.flat[worst]), most)


def _difference(place: str, entry: int, ours: float, theirs: float, most: float) -> Disagreement:
    what = f"at entry {entry}: {ours:.9g} against {theirs:.9g}, where rounding explains {most:.3g}"
    return Disagreement(place, what)


def _graph(network: Network) -> None:
    """Compare each node of the simplified graph, at random inputs of its own, with what it was before."""
    trace, graph = network.trace, network.graph
    place = f"node {graph.output.name!r}"
    if len(trace.origin) != len(graph.nodes):
        raise Disagreement(place, "on the number of nodes")
    for node in graph.nodes[1:]:
        was = trace.origin[node.index]
        if was is None:  # it is compared with those that it was made for
            continue
        before, sources = trace.nodes[was], _sources(network, node)
        if node.op is not before.op or tuple(sources.values()) != before.inputs:
            _same(network, node, sources, before.index)
    last = trace.origin[-1]
    if last is None:
        raise Disagreement(place, "on which node is the output")
    given = _random(network, [last])
    with _computable(place):
        theirs, allowed = evaluate_part(trace.nodes, given, trace.output, AS_STORED)
    _within(place, given[last], theirs, allowed)


def _sources(network: Network, node: Node) -> dict[int, int]:
    """Return the nodes that a node is computed from, past those that are new, each with what it was before."""
    found: dict[int, int] = {}
    for i in node.inputs:
        was = network.trace.origin[i]
        found.update(_sources(network, network.graph.nodes[i]) if was is None else {i: was})
    return found


def _same(network: Network, node: Node, sources: Mapping[int, int], index: int) -> None:
    """Compare a node of the simplified graph with node `index` of the graph as read, both from `sources`."""
    place = f"node {node.name!r}"
    drawn = _random(network, tuple(sources.values()))
    told = torch.zeros(node.shape, dtype=torch.bool)  # entries that were compared somewhere
    for side in (torch.positive, torch.abs):  # logarithms and roots want positive numbers
        given = {source: side(value) for source, value in drawn.items()}
        inputs = {i: given[source] for i, source in sources.items()}
        with _computable(place):
            ours, error = evaluate_part(network.graph.nodes, inputs, node.index, AS_STORED)
            theirs, allowed = evaluate_part(network.trace.nodes, given, index, AS_STORED)
        if ours.shape == theirs.shape:
            neither = ours.isnan() & theirs.isnan()  # outside what the function is defined on, other points must tell
            told |= ~neither.all(0)
            ours, theirs = ours.masked_fill(neither, 0.0), theirs.masked_fill(neither, 0.0)
        _within(place, ours, theirs, error, allowed)
        if bool(told.all()):
            return
    raise _hidden(network, place, "there is no number there whatever its input")


def _random(network: Network, sources: Sequence[int]) -> dict[int, Tensor]:
    """Draw values (2, *shape) for these nodes of the graph as read."""
    random = generator(0)
    shapes = {source: network.trace.nodes[source].shape for source in sources}
    return {i: torch.randn(2, *shape, generator=random, dtype=torch.float64) for i, shape in shapes.items()}


@contextmanager
def _computable(place: str) -> Iterator[None]:
    """Call it a disagreement where an input is not given or shapes do not fit."""
    try:
        yield
    except (KeyError, RuntimeError) as error:
        unless_out_of_memory(error)
        raise Disagreement(place, "on what it is computed from") from error


def _within(place: str, ours: Tensor, theirs: Tensor, *errors: Tensor) -> None:
    if ours.shape != theirs.shape:
        raise Disagreement(place, f"on its shape: {tuple(ours.shape[1:])} against {tuple(theirs.shape[1:])}")
    allowed = torch.stack(errors).sum(0) if len(errors) > 1 else errors[0]
    bad = ~((ours - theirs).abs() <= allowed)
    if bool(bad.any()):
        worst = int(bad.flatten().int().argmax())
        one, other, most = (float(t.flatten()[worst]) for t in (ours, theirs, allowed))
        raise _difference(place, worst % ours[0].numel(), one, other, most)


# --- at points ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Answer:
    """One of onnxruntime's tensors at a few points."""

    value: Tensor  # (batch, *shape), float64
    dtype: torch.dtype | None  # of onnxruntime's own numbers; None where they are not floats
    finite: Tensor  # (batch,)
    all_finite: bool

    def at(self, rows: Tensor | slice) -> Answer:
        """Return the answer at some of the points."""
        finite = self.finite[rows]
        return Answer(self.value[rows], self.dtype, finite, self.all_finite or bool(finite.all()))

    @staticmethod
    def of(runs: Sequence[np.ndarray]) -> Answer:
        found = np.stack(runs)
        dtype = getattr(torch, found.dtype.name, None)
        finite = np.isfinite(found).reshape(len(found), -1).all(1)
        value = torch.from_numpy(found.astype(np.float64))
        if found.dtype.kind in "biu":  # truth values and integers, which are computed without rounding
            dtype = torch.float64
        return Answer(value, dtype if dtype in FLOATS else None, torch.from_numpy(finite), bool(finite.all()))


def _answers(network: Network, points: Tensor) -> Iterator[tuple[Mapping[str, Answer], Tensor]]:
    """Yield onnxruntime's tensors of all steps, for a few points at a time, and which of these points tell much.

    The origin does not: it shows the biases alone. It counts only where there is no other point.
    """
    telling = ~_whole(points == 0.0)
    telling = telling if bool(telling.any()) else ~telling
    names = sorted({name for step in network.trace.steps for name, _ in (*step.inputs, *step.outputs)})
    if not names:  # the output is a constant
        return
    size = max(1, _TOGETHER // sum(node.size for node in network.trace.nodes))
    for some, which in zip(points.split(size), telling.split(size), strict=True):
        runs = [network.tensors(point.numpy(), names) for point in some]
        yield {name: Answer.of(found) for name, found in zip(names, zip(*runs, strict=True), strict=True)}, which


def _agrees(
    network: Network, step: Step, answers: Mapping[str, Answer], telling: Tensor, made: Set[str] = frozenset()
) -> bool:
    """Compare one step; say whether it was compared at a telling point, with finite numbers throughout.

    made: tensors that onnxruntime may have handed on before they were rounded.
    """
    rows: Tensor | slice = slice(None)
    if not all(answers[tensor].all_finite for tensor, _ in step.inputs):
        rows = torch.stack([answers[tensor].finite for tensor, _ in step.inputs]).all(0)
        if not bool(rows.any()):
            return False
    given = {index: answers[tensor].value[rows] for tensor, index in step.inputs}
    narrow = {index for tensor, index in step.inputs if tensor in made and answers[tensor].dtype == torch.float16}
    off = {index: _unrounded(given[index]) for index in narrow}
    known = telling[rows]
    place = f"node {step.name!r} ({step.op})"
    for tensor, index in step.outputs:
        known = known & compare_output(network, place, given, off, index, answers[tensor].at(rows))
    return bool(known.any())


def _alone(network: Network, step: Step) -> None:
    """Compare a step that overflow hid at every point: onnxruntime runs its node alone, at random inputs."""
    shapes = {name: network.trace.nodes[index].shape for name, index in step.inputs}
    random = np.random.default_rng(0)
    names = [*shapes, *(name for name, _ in step.outputs)]
    sizes = () if step.fused else _SIZES
    for size, side in itertools.product(sizes, (np.positive, np.abs)):  # logarithms and roots want positive numbers
        runs = []
        for _ in range(2):
            inputs = {name: side(size * random.normal(size=shape)) for name, shape in shapes.items()}
            runs.append(network.run_alone(step, inputs))
        answers = {name: Answer.of([run[name] for run in runs]) for name in names}
        if _agrees(network, step, answers, torch.ones(len(runs), dtype=torch.bool)):
            return
    raise _hidden(network, f"node {step.name!r} ({step.op})", "onnxruntime overflows there whatever its input")


def _unrounded(value: Tensor) -> Tensor:
    """Return how far a float16 number may lie from what it was before it was rounded."""
    return with_vanishing(rounding(value.abs(), 1, torch.float16), 1, torch.float16)


def compare_output(
    network: Network, place: str, given: Mapping[int, Tensor], off: Mapping[int, Tensor], index: int, theirs: Answer
) -> Tensor:
    """Compare one output of a step with finite inputs; say at which points all of it could be compared: (batch,).

    given: by node of the graph as read, the numbers that the runtime has there; off: how far from these its own may be.
    A Disagreement says where more than one step's rounding lies between both.
    """
    dtype = theirs.dtype
    if dtype is None:
        raise Disagreement(place, "on its type: the runtime's are not floats")
    nodes, slack = network.trace.nodes, network.trace.slack
    with _computable(place):
        values = values_of_part(nodes, given, index)
        ours = values[index]
        if theirs.all_finite and torch.equal(ours.to(dtype).to(torch.float64), theirs.value):
            return theirs.finite  # ours, rounded once at most: never more than the step may round
        runtime = Arithmetic(dtype, lambda node: slack.get(node.index), _EXTRA_ROUNDINGS)
        moves_only = all(isinstance(node.op, Affine) and not node.op.fan for node in between(nodes, given, index))
        error = error_of_part(nodes, given, values, index, runtime, None if moves_only else off)
    allowed = error * (1.0 + 1.0 / coarseness(dtype))  # ours is rounded too
    value = theirs.value
    # Outside what the function is defined on, or where it overflows float64 too, other points must tell. What
    # onnxruntime answers there (0 for 0 / 0, in LpNormalization) is its own affair: there is no bound, so no proof.
    if not bool(ours.isfinite().all()) and value.shape == ours.shape:
        undefined = (ours.isnan() | (ours == value)) & ~ours.isfinite() & ~allowed.isfinite()
        ours, value = ours.masked_fill(undefined, 0.0), value.masked_fill(undefined, 0.0)
        allowed = allowed.masked_fill(undefined, torch.inf)
    if not theirs.all_finite and value.shape == ours.shape:
        # A float overflows where a partial sum does; the error is at least one rounding of all magnitudes in it.
        overflow = ~value.isfinite() & (ours.abs() + size_behind(allowed, dtype) >= torch.finfo(dtype).max)
        value = torch.where(overflow, ours, value)
    _within(place, ours, value, allowed)
    return theirs.finite & _whole(allowed.isfinite())


def _whole(entries: Tensor) -> Tensor:
    """Say at which points all entries are true: (batch, ...) -> (batch,)."""
    return entries.reshape(entries.shape[0], -1).all(1)
