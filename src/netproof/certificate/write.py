"""The certifying pass: from a proved question and what its search told to a file that `npcheck` accepts.

Nothing here needs torch: it can be done by another process than the search.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from netproof._version import __version__
from netproof.certificate.body import Body
from netproof.certificate.bounds import NeuronBounds, Rung, neuron_bounds_of
from netproof.certificate.boxes import BoxTreeMaker, write_boxes
from netproof.certificate.leaves import OfRows, Prover, TooWeak, Unprovable
from netproof.certificate.spool import Hints, Spool
from netproof.certificate.state import REFUSED, WITHOUT
from netproof.certificate.tree import TreeMaker
from netproof.core.deadline import Deadline, DeadlineExpired
from netproof.errors import UsageError
from npcheck.errors import Refused
from npcheck.files import read
from npcheck.last import before_last_map
from npcheck.network import Network
from npcheck.onnx_file import read_network
from npcheck.statement import Region, Rows, Statement, state
from npcheck.vnnlib_file import read_question

INPUTS = 100  # that vary, at most, for a proof over boxes
NARROW = 1e-6  # share of the widest input, below which one is as good as pinned: its ends were only rounded
FEW = 16  # inputs that vary, of a network whose operators are not all ReLUs, where splits of neurons may not be enough
MOST_HOLD = 0.9  # share of the search's sub-domains that must hold as they are, or neurons are bounded better
SOME, MORE = 16, 0.1  # splits, and more for each of the search's sub-domains, before neurons are bounded better

Progress = Callable[[int, int], None]  # disjuncts done, and how many there are


@dataclass(frozen=True)
class Written:
    """What became of a certificate."""

    leaves: int = 0
    size: int = 0  # bytes
    seconds: float = 0.0
    reason: str = ""  # why there is none; empty: it was written


@dataclass(frozen=True)
class Subject:
    """The model and the specification, read as the checker will read them."""

    network: Network  # before the last maps that can be left out
    statement: Statement
    model: str  # sha256 of the files' content
    spec: str
    whole: Network  # all of the file's

    @classmethod
    def read(cls, model: Path, spec: Path) -> Subject:
        """Read both; UsageError where a certificate cannot be about them, before anything is searched."""
        try:
            whole, of_model = read(model, read_network)
            question, of_spec = read(spec, read_question)
            network, question, _ = before_last_map(whole, question)
            return cls(network, state(question), of_model, of_spec, whole)
        except Refused as reason:
            raise _refused(reason) from None

    def about(self, spec: Path) -> Subject:
        """Return the same with another specification."""
        try:
            question, of_spec = read(spec, read_question)
            network, question, _ = before_last_map(self.whole, question)
            return replace(self, network=network, statement=state(question), spec=of_spec)
        except Refused as reason:
            raise _refused(reason) from None


def _refused(reason: Refused) -> UsageError:
    return UsageError(f"{REFUSED}{reason}", remedy=WITHOUT)


def write_certificate(
    path: Path, subject: Subject, spool: Path | Hints, deadline: Deadline, progress: Progress = lambda done, count: None
) -> Written:
    """Write the certificate of a proved question: under another name first, so that there is never half a one."""
    began, leaves = time.monotonic(), 0
    header = {
        "claim": "unsat",
        "model": subject.model,
        "producer": f"netproof {__version__}",
        "spec": subject.spec,
    }
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    hints, reason = Spool(spool) if isinstance(spool, Path) else spool, ""
    try:
        with partial.open("wb") as file, np.errstate(all="ignore"):
            body = Body(file, header)
            for region in subject.statement.regions:
                leaves += _write_region(body, subject, region, hints, deadline, progress)
            body.close()
            file.flush()
            os.fsync(file.fileno())
        size = partial.stat().st_size
        partial.replace(path)
    except DeadlineExpired:
        reason = "its time was up"
    except Unprovable as why:
        reason = str(why)
    except OSError as error:
        reason = f"it cannot be written: {error.strerror or error}"
    finally:
        partial.unlink(missing_ok=True)
    seconds = time.monotonic() - began
    return Written(seconds=seconds, reason=reason) if reason else Written(leaves, size, seconds)


def _write_region(
    body: Body, subject: Subject, region: Region, spool: Hints, deadline: Deadline, progress: Progress
) -> int:
    """Write all that is said of a region, on the lowest rung that is enough; return the leaves of its trees."""
    told = spool.sides(region.targets)
    top = Rung.BRANCHED if told.branched else Rung.SLOPED
    place = body.place()
    for rung in Rung:
        bounds = neuron_bounds_of(subject.network, region, deadline, rung, told)
        writer = _RegionWriter(body, subject, region, bounds, spool, deadline)
        if rung < top and writer.few_hold():
            continue
        bounds.write(body)
        try:
            return writer.trees(np.inf if rung == top else None, progress)
        except TooWeak:
            body.back_to(place)
    raise AssertionError  # the last rung has all the splits that it needs


class _RegionWriter:
    """Writes the trees of a region's disjuncts."""

    def __init__(
        self, body: Body, subject: Subject, region: Region, bounds: NeuronBounds, spool: Hints, deadline: Deadline
    ) -> None:
        self._body, self._subject, self._region, self._bounds = body, subject, region, bounds
        self._spool, self._deadline = spool, deadline
        self._closed = sum(spool.count(target) for target in region.targets)

    def few_hold(self) -> bool:
        """Say whether many of the search's sub-domains do not hold on these bounds: the search had better ones."""
        missing = sum(self._tree(target, rows).missing() for target, rows in self._targets())
        return missing > (1.0 - MOST_HOLD) * self._closed

    def trees(self, spare: float | None, progress: Progress) -> int:
        """Write all trees; TooWeak where that takes more than `spare` splits beside the search's, or some more."""
        left, leaves = SOME + MORE * self._closed if spare is None else spare, 0
        for target, rows in self._targets():
            progress(target, self._subject.statement.targets)
            if self._is_by_boxes(target):
                boxes = BoxTreeMaker(self._subject.network, self._region, rows, self._bounds.ranges, self._deadline)
                write_boxes(self._body, boxes.make())
                leaves += boxes.leaves
            else:
                tree = self._tree(target, rows)
                left = tree.write(self._body, left)
                leaves += tree.leaves
        return leaves

    def _is_by_boxes(self, target: int) -> bool:
        """Say whether a disjunct is shown over boxes of the input, and not by splits of neurons."""
        widths = self._region.upper - self._region.lower
        varying = np.count_nonzero(widths > NARROW * widths.max())
        if not self._spool.count(target):
            return bool(varying <= INPUTS)
        return bool(self._subject.network.nonlinear) and bool(varying <= FEW)

    def _tree(self, target: int, rows: Rows) -> TreeMaker:
        network, bounds = self._subject.network, self._bounds
        aim = OfRows(rows, len(network.nodes) - 1)
        prover = Prover(network, bounds.packed, bounds.ranges, self._region, aim, self._deadline)
        return TreeMaker(prover, self._spool, target)

    def _targets(self) -> Iterator[tuple[int, Rows]]:
        return zip(self._region.targets, self._region.rows, strict=True)
