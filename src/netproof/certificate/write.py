"""The certifying pass: from a proved question and what its search told to a file that `npcheck` accepts.

Nothing here needs torch: it can be done by another process than the search.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from netproof._version import __version__
from netproof.certificate.body import Body
from netproof.certificate.bounds import NeuronBounds, neuron_bounds_of
from netproof.certificate.boxes import BoxTreeMaker, write_boxes
from netproof.certificate.spool import Hints, Spool
from netproof.certificate.state import REFUSED, WITHOUT
from netproof.certificate.tree import TreeMaker, Unprovable, write_tree
from netproof.core.deadline import Deadline, DeadlineExpired
from netproof.errors import UsageError
from npcheck.errors import Refused
from npcheck.files import read
from npcheck.last import before_last_map
from npcheck.network import Network
from npcheck.onnx_file import read_network
from npcheck.statement import Region, Statement, state
from npcheck.vnnlib_file import read_question

INPUTS = 100  # that vary, at most, for a proof over boxes
NARROW = 1e-6  # share of the widest input, below which one is as good as pinned: its ends were only rounded
FEW = 16  # inputs that vary, of a network whose operators are not all ReLUs, where splits of neurons may not be enough
SAMPLE = 256  # hints of a disjunct that are tried on default bounds
MOST_HOLD = 0.9  # share of these that must hold, or neurons get slopes of their own

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
    """Write all that is said of a region; return the leaves of its trees."""
    network = subject.network
    bounds = neuron_bounds_of(network, region, deadline, climbed=False)
    if _few_hold(subject, region, bounds, spool, deadline):
        bounds = neuron_bounds_of(network, region, deadline, climbed=True)
    bounds.write(body)
    leaves = 0
    for target, rows in zip(region.targets, region.rows, strict=True):
        progress(target, subject.statement.targets)
        hints, widths = spool.hints(target), region.upper - region.lower
        varying = np.count_nonzero(widths > NARROW * widths.max())
        by_boxes = varying <= (FEW if network.nonlinear else 0 if hints else INPUTS)
        if not by_boxes:
            maker = TreeMaker(network, bounds.packed, bounds.ranges, region, rows, deadline)
            write_tree(body, maker.make(hints))
            leaves += maker.leaves
        else:
            boxes = BoxTreeMaker(network, region, rows, bounds.ranges, deadline)
            write_boxes(body, boxes.make())
            leaves += boxes.leaves
    return leaves


def _few_hold(subject: Subject, region: Region, bounds: NeuronBounds, spool: Hints, deadline: Deadline) -> bool:
    """Say whether many of the search's sub-domains do not hold on these bounds: the search had better ones."""
    shares = []
    for target, rows in zip(region.targets, region.rows, strict=True):
        hints = spool.hints(target)[:SAMPLE]
        if hints:
            maker = TreeMaker(subject.network, bounds.packed, bounds.ranges, region, rows, deadline)
            shares.append(maker.holds(hints))
    return bool(shares) and sum(shares) < MOST_HOLD * len(shares)
