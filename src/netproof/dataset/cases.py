"""One image's question while it is decided: its property, its problem, and the evidence so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import torch

from netproof.api import Run
from netproof.core.reasons import CONTRADICTION
from netproof.core.verdict import Stats, Status, Witness
from netproof.dataset.images import Item
from netproof.dataset.prediction import largest_output, predicted_class
from netproof.dataset.result import ImageResult, ImageStatus
from netproof.errors import UsageError
from netproof.model.combined import about
from netproof.model.load import check_module
from netproof.model.network import Network
from netproof.problem.last.places import by_place
from netproof.problem.problem import Problem
from netproof.problem.property import Property
from netproof.problem.reduce import Parts
from netproof.problem.specs import check_classes, classification
from netproof.problem.witness import confirm
from netproof.run.case import save_case
from netproof.run.conclude import Evidence
from netproof.search.evidence import Outcome

STATUSES = {Status.SAT: ImageStatus.BROKEN, Status.UNSAT: ImageStatus.PROVED}


@dataclass(eq=False)
class Case:
    """An image that is read right, and what is known of the inputs around it."""

    item: Item
    predicted: int
    network: Network
    asked: Property
    parts: Sequence[Sequence[Problem]]  # of its one problem; several where there are too many classes for one
    evidence: Evidence
    stats: Stats = field(default_factory=Stats)
    seconds: float = 0.0
    proved: list[bool] = field(default_factory=list)  # by target, whether its whole set is proved

    @property
    def problem(self) -> Problem:
        """Return the problem; of one in several parts, the first."""
        return self.parts[0][0]

    def replay(self, point: torch.Tensor, target: int) -> Witness | None:
        """Ask onnxruntime whether a point (*input) breaks a target."""
        disjunct = self.problem.disjuncts[target]
        return confirm(self.network, self.asked, disjunct, point.detach().cpu().numpy())

    @property
    def open_targets(self) -> list[int]:
        return [target for target, proved in enumerate(self.proved) if not proved]

    def learn(self, targets: Sequence[int], shares: Sequence[Fraction], bounds: Sequence[float], by: str) -> None:
        """Take in what was proved of some targets: those that are wholly proved count, the others stay as they are."""
        problem = self.problem.select(torch.tensor(list(targets)))
        done = [share == 1 for share in shares]
        outcome = Outcome(tuple(shares), tuple(bounds), decided_by=by if any(done) else "")
        self.evidence.add_whole(problem, outcome)
        for target, proved in zip(targets, done, strict=True):
            self.proved[target] = self.proved[target] or proved

    def result(self, run: Run) -> ImageResult:
        """Return what follows from the evidence; a contradiction is kept as a case, as `verify` does."""
        verdict = replace(self.evidence.verdict(self.stats, cancelled=False), about=about(self.network))
        witness, reason = verdict.witness, verdict.reason
        if reason == CONTRADICTION:
            verdict = save_case(verdict, self.network, self.asked, run.info.name, run.options, run.seed)
            found = verdict.details[CONTRADICTION]
            reason = f"{CONTRADICTION}: {found['what']} (kept in {found['saved']})"
        return ImageResult(
            self.item.index,
            self.item.label,
            self.predicted,
            STATUSES.get(verdict.status, ImageStatus.OPEN),
            self.seconds,
            verdict.lower_bound,
            None if witness is None else largest_output(witness.output),
            witness,
            verdict.decided_by,
            reason,
        )


def open_case(network: Network, item: Item, share: Callable[[Problem], Problem], numbers: int) -> Case | ImageResult:
    """Read the image with onnxruntime; return its answer where it is misread, else the case.

    share: gives the problem the graph that other cases have. numbers: how many its rows may have at once.
    """
    centre, region = item.load()
    _check_shape(network, centre)
    predicted = predicted_class(network, np.asarray(centre).reshape(network.input_shape))
    property = by_place(network, classification(region, item.label, network.graph.output.size))
    if predicted != item.label:
        check_module(network, torch.from_numpy(np.asarray(centre, dtype=np.float64).reshape(1, *network.input_shape)))
        witness = confirm(network, property, None, np.asarray(centre, dtype=np.float64))
        return ImageResult(
            item.index, item.label, predicted, ImageStatus.MISREAD, 0.0, None, predicted, witness, "image"
        )
    parts: Sequence[Sequence[Problem]] = Parts(network, property, numbers)
    if len(parts) == 1:
        ((problem,),) = parts
        parts = [[share(problem)]]
    case = Case(item, predicted, network, property, parts, Evidence(network, property))
    case.proved = [False] * len(property.disjuncts)
    return case


def question_of(network: Network, item: Item) -> Property:
    """Return what is asked about an image, as it is written."""
    return classification(item.load()[1], item.label, network.graph.output.size)


def check_labels(network: Network, items: Sequence[Item]) -> None:
    """Raise UsageError for a label that is not an output of the network, or where it has but one."""
    outputs = int(np.prod(network.output_shape))
    check_classes(outputs, network.path)
    wrong = next((item for item in items if not 0 <= item.label < outputs), None)
    if wrong is not None:
        raise UsageError(
            f"image {wrong.index} has the label {wrong.label}, which is not an output of this network",
            remedy=f"give labels from 0 to {outputs - 1}",
        )


def _check_shape(network: Network, centre: np.ndarray) -> None:
    wanted, given = network.input_shape, np.shape(centre)
    if _body(wanted) != _body(given):
        raise UsageError(
            f"an image has shape {list(given)}, the network's input {list(wanted)}",
            remedy="give X as (N, *input), without or with a batch axis of 1",
        )


def _body(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape without its leading axes of 1."""
    axes = list(shape)
    while len(axes) > 1 and axes[0] == 1:
        axes.pop(0)
    return tuple(axes)
