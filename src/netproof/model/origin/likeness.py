"""The comparison of a graph with the module that it was made from.

Two comparisons together cover the way from the module to the graph:

1. the module and the operations that were recorded of it answer with the same numbers, bit for bit, since they are the
   same operations of the same library. Where forward() does something else for some inputs, it shows here;
2. each recorded operation and the nodes of the graph that stand for it, both from the operation's own inputs, agree
   within what that one operation may round. An answer that no node of the graph stands for, since it is a constant
   or only moves entries, is compared with the answer of the whole graph.

So no bound over a whole network is needed, which would excuse anything in a deep one. There is one exception to the
first: a library may add in another order where a tensor lies otherwise in memory, as it may where the recording has no
operation in place, or where the module was moved. Then all of the network must agree within the rounding of direct sums
in any order, with nothing on top; where no bound on that is finite, it is an error.

Both are made at every point that is given. Points at which other operations have a number are compared apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netproof.errors import ModelError
from netproof.model.evaluate import between, evaluate, float_error
from netproof.model.network import Network
from netproof.model.origin.capture import Operation
from netproof.model.origin.cross_check import Answer, Disagreement, compare_output
from netproof.model.origin.torch_module import Runner

TOGETHER = 1 << 22  # entries of all tensors at the points that are compared together


def compare(network: Network, points: Tensor) -> bool:
    """Compare the graph with the module that it was made from at points (n, *input); a mismatch is an error.

    Say whether any answer of the module is a number. A network that was not made from a module has none to differ from.
    """
    runner = network.reference
    if runner is None or len(points) == 0:
        return True
    points = points.to(getattr(torch, network.input_dtype)).to(torch.float64)
    at_once = max(1, TOGETHER // network.graph.entries)
    answers = [_compared(network, runner, some) for some in points.split(at_once)]
    return any(bool(answer.isfinite().any()) for answer in answers)


def _compared(network: Network, runner: Runner, points: Tensor) -> Tensor:
    """Compare both at some points; return the network's outputs there, (n, *output)."""
    answers = runner.answers(points)
    if any(len(tensors) != len(runner.recorded.answers) for tensors in answers):
        raise _different(network, "it returns another number of tensors")
    if runner.is_moved:
        return _only_rounded(network, runner, points, answers)
    runs = runner.operations(points)
    returned = [tensors[: len(runner.recorded.answers)] for tensors in runs]
    if any(_shapes(some) != _shapes(others) for some, others in zip(answers, returned, strict=True)):
        raise _different(network, "it returns tensors of other shapes")
    other = [k for k, pair in enumerate(zip(answers, returned, strict=True)) if not _are_same(*pair)]
    if other:
        _only_rounded(network, runner, points[other], [answers[k] for k in other])
    recorded = runner.outputs(runs)
    results = _results(runner, runs)
    finite = torch.stack([result.answer.finite for result in results], 1)
    for pattern in finite.unique(dim=0):
        rows = (finite == pattern).all(1)
        _same_operations(network, points[rows], [result.at(rows) for result in results], recorded[rows])
    return recorded


def _shapes(tensors: Sequence[Tensor]) -> list[torch.Size]:
    return [tensor.shape for tensor in tensors]


def _are_same(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    pairs = zip(some, others, strict=True)
    return all(bool(((a == b) | ((a != a) & (b != b))).all()) for a, b in pairs)


def _only_rounded(network: Network, runner: Runner, points: Tensor, answers: Sequence[Sequence[Tensor]]) -> Tensor:
    """Compare what the module returns with the graph where its recording computes in another order."""
    if runner.has_inner_outputs:
        raise ModelError(
            "a tensor inside the module cannot be compared: the module was moved, or its recording rounds otherwise",
            file=network.path,
            remedy="load the module again, or ask about what it returns",
        )
    theirs = runner.outputs(answers)
    if theirs.shape[1:] != network.graph.output.shape:
        raise _different(network, f"its output has shape {tuple(theirs.shape[1:])}, the graph's {network.output_shape}")
    _within_rounding(network, points, theirs)
    return theirs


def _within_rounding(network: Network, points: Tensor, theirs: Tensor) -> None:
    """Compare the module's answers (n, *output) with the graph's, all of whose rounding is allowed, and no more."""
    ours, error = evaluate(network.graph, points)
    allowed = float_error(network.graph, points, getattr(torch, network.input_dtype)) + error
    gap = (theirs - ours).abs()
    neither = (theirs.isnan() & ours.isnan()) | (theirs.isinf() & (theirs == ours))
    if bool((neither | ((gap <= allowed) & allowed.isfinite())).all()):
        return
    fine = neither | (gap <= allowed)
    worst = int((gap / allowed).nan_to_num(nan=torch.inf).masked_fill(fine, 0.0).argmax())
    values = [float(t.flatten()[worst]) for t in (theirs, ours, allowed)]
    output = worst % max(1, network.graph.output.size)
    where = f"at output {output}: {values[0]:.9g} against {values[1]:.9g}, where rounding explains {values[2]:.3g}"
    raise _different(network, where)


@dataclass(frozen=True, eq=False)
class Result:
    """What a recorded operation computes at a few points."""

    operation: Operation
    answer: Answer
    is_output: bool

    def at(self, rows: Tensor) -> Result:
        return replace(self, answer=self.answer.at(rows))


def _same_operations(network: Network, points: Tensor, results: Sequence[Result], outputs: Tensor) -> None:
    """Compare each recorded operation, computed from its own inputs, with the nodes that stand for it.

    points: (n, *input); at each of them the same results are finite. outputs: what was recorded there, (n, *output).
    An operation one of whose own inputs is not finite is compared where all of them are.
    """
    index_of = {name: index for step in network.trace.steps for name, index in step.outputs}
    known, infinite = {0: points}, set[int]()
    for result in results:
        index, theirs = index_of.get(result.operation.tensor), result.answer
        if index is None:  # a constant, or entries that are only moved: compared by whatever reads it
            if result.is_output:
                _within_rounding(network, points, outputs)
            continue
        if not theirs.all_finite:
            infinite.add(index)
        try:
            if index not in known:
                sources = between(network.trace.nodes, known, index)
                if not any(node.index in infinite and node.index != index for node in sources):
                    compare_output(network, result.operation.place, known, {}, index, theirs)
                if theirs.all_finite:
                    known[index] = theirs.value
            elif known[index].shape != theirs.value.shape or not torch.equal(known[index], theirs.value):
                raise Disagreement(result.operation.place, "on numbers that nothing changes in the graph")
        except Disagreement as error:
            where = f"{error.what}, in {error.place}"
            remedy = "load the module again if it changed since; else write that operation in another way"
            raise _different(network, where, remedy) from error


def _results(runner: Runner, runs: Sequence[Sequence[Tensor]]) -> list[Result]:
    """Return the results of recorded operations by point (n,) of `runs`, and last of all the answers."""
    recorded = runner.recorded
    answers = len(recorded.answers)
    results = []
    for k, operation in enumerate((*recorded.answers, *recorded.operations)):
        answer = Answer.of([tensors[k].detach().cpu().numpy() for tensors in runs])
        results.append(Result(operation, answer, k in runner.chosen))
    return [*results[answers:], *results[:answers]]


def _different(
    network: Network,
    where: str,
    remedy: str = "forward() must do the same for every input; if the module changed since, load it again",
) -> ModelError:
    return ModelError(
        f"the module does not compute what its exported graph does, {where}", file=network.path, remedy=remedy
    )
