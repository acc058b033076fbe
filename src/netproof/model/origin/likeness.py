"""The comparison of a graph with the module that it was made from.

Two comparisons together cover the way from the module to the graph:

1. the module and the operations that were recorded of it answer with the same numbers, bit for bit, since they are the
   same operations of the same library. Where forward() does something else for some inputs, it shows here;
2. each recorded operation and the nodes of the graph that stand for it, both from the operation's own inputs, agree
   within what that one operation may round.

So no bound over a whole network is needed, which would excuse anything in a deep one. There is one exception to the
first: a library may add in another order where a tensor lies otherwise in memory, as it may where the recording has no
operation in place, or where the module was moved. Then all of the network must agree within the rounding of direct sums
in any order, with nothing on top; where no bound on that is finite, it is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from netproof.errors import ModelError
from netproof.model.evaluate import evaluate, float_error
from netproof.model.network import Network
from netproof.model.origin.cross_check import Answer, Disagreement, compare_output
from netproof.model.origin.torch_module import Runner

STEPPED = 2  # points at which every operation is compared, of those that matter most


def compare(network: Network, points: Tensor) -> None:
    """Compare the graph with the module that it was made from at points (n, *input); a mismatch is an error.

    A network that was not made from a module has nothing to be compared with.
    """
    runner = network.reference
    if runner is None:
        return
    points = points.to(getattr(torch, network.input_dtype)).to(torch.float64)
    answers = _same_path(network, runner, points)
    if not bool(answers.isfinite().any()):
        raise ModelError(
            "neither the module nor its exported graph gives a number at any point where they are compared",
            file=network.path,
            remedy="give logarithms and roots arguments that are positive near 0",
        )
    telling = (points != 0.0).flatten(1).any(1)  # the origin shows biases alone
    some = points[telling] if bool(telling.any()) else points
    _same_operations(network, runner, some[:STEPPED])


def compare_path(network: Network, points: Tensor, *, operations: bool) -> None:
    """Compare the module with what was recorded of it at points (n, *input), the telling ones first.

    operations: whether its graph is compared too, operation by operation at the first points. A mismatch is an error.
    """
    if network.reference is None or len(points) == 0:
        return
    points = points.to(getattr(torch, network.input_dtype)).to(torch.float64)
    _same_path(network, network.reference, points)
    if operations and not network.reference.is_moved:
        _same_operations(network, network.reference, points[:STEPPED])


def _same_path(network: Network, runner: Runner, points: Tensor) -> Tensor:
    theirs = runner(points)
    if theirs.shape[1:] != network.graph.output.shape:
        raise _different(network, f"its output has shape {tuple(theirs.shape[1:])}, the graph's {network.output_shape}")
    other = torch.ones(len(points), dtype=torch.bool)
    if not runner.is_moved:
        recorded = runner.recorded_outputs(points)
        other = ~((theirs == recorded) | (theirs.isnan() & recorded.isnan())).flatten(1).all(1)
    if bool(other.any()):
        _within_rounding(network, points[other], theirs[other])
    return theirs


def _within_rounding(network: Network, points: Tensor, theirs: Tensor) -> None:
    """Compare the module's answers (n, *output) with the graph's, all of whose rounding is allowed, and no more."""
    ours, error = evaluate(network.graph, points)
    allowed = float_error(network.graph, points, _arithmetic(getattr(torch, network.input_dtype))) + error
    gap = (theirs - ours).abs()
    neither = (theirs.isnan() & ours.isnan()) | (theirs.isinf() & (theirs == ours))
    if bool((neither | ((gap <= allowed) & allowed.isfinite())).all()):
        return
    worst = int((gap / allowed).nan_to_num(nan=torch.inf).masked_fill(neither, 0.0).argmax())
    values = [float(t.flatten()[worst]) for t in (theirs, ours, allowed)]
    output = worst % max(1, network.graph.output.size)
    where = f"at output {output}: {values[0]:.9g} against {values[1]:.9g}, where rounding explains {values[2]:.3g}"
    raise _different(network, where)


def _same_operations(network: Network, runner: Runner, points: Tensor) -> None:
    """Compare each recorded operation, computed from its own inputs, with the nodes that stand for it."""
    index_of = {name: index for step in network.trace.steps for name, index in step.outputs}
    given = {0: points}
    for name, place, theirs in _results(runner, points):
        index = index_of.get(name)  # what is not there is a constant, or only moves entries
        if index is None or not theirs.all_finite:
            continue
        try:
            if index in given:
                same = given[index].shape == theirs.value.shape and torch.equal(given[index], theirs.value)
                if not same:
                    raise Disagreement(place, "on numbers that nothing changes in the graph")
            else:
                compare_output(network, place, given, {}, index, theirs)
                given[index] = theirs.value
        except Disagreement as error:
            raise _different(network, f"{error.what}, in {error.place}") from error


def _results(runner: Runner, points: Tensor) -> Iterator[tuple[str, str, Answer]]:
    """Yield the results of recorded operations, and last of all the answers: name in the file, place, and numbers."""
    recorded = runner.recorded
    runs = [[t.detach().cpu() for t in tensors] for tensors in runner.operations(points)]
    names = [*recorded.answer_names, *recorded.result_names]
    places = [*recorded.answer_names, *map(recorded.place_of, recorded.operations)]
    for k in [*range(recorded.answers, len(names)), *range(recorded.answers)]:
        found = Answer.of([tensors[k].numpy() for tensors in runs])
        dtype = None if found.dtype is None else _arithmetic(found.dtype)
        yield names[k], places[k], replace(found, dtype=dtype)


def _arithmetic(dtype: torch.dtype) -> torch.dtype:
    """Return the type whose rounding is allowed: attributes of ONNX are float32, even where the weights are not."""
    return torch.float32 if dtype == torch.float64 else dtype


def _different(network: Network, where: str) -> ModelError:
    return ModelError(
        f"the module does not compute what its exported graph does, {where}",
        file=network.path,
        remedy="forward() must do the same for every input; if the module changed since, load it again",
    )
