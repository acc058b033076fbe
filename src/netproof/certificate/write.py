"""The certifying pass: from a proved question and what its search told to a file that `npcheck` accepts."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from npcheck.errors import Refused
from npcheck.files import content
from npcheck.network import Network
from npcheck.onnx_file import read_network
from npcheck.statement import Region, Statement, state
from npcheck.vnnlib_file import read_question

from netproof._version import __version__
from netproof.certificate.body import Body
from netproof.certificate.bounds import write_bounds
from netproof.certificate.boxes import BoxTreeMaker, write_boxes
from netproof.certificate.record import Record
from netproof.certificate.tree import TreeMaker, write_tree
from netproof.core.deadline import Deadline
from netproof.errors import UsageError


@dataclass(frozen=True)
class Written:
    """A certificate that was written."""

    path: Path
    leaves: int
    size: int
    seconds: float


class Certificate:
    """One question's certificate: what the search tells while it runs, and the file in the end."""

    def __init__(self, path: Path, model: Path, spec: Path) -> None:
        """Read the files as the checker will; UsageError where it cannot, before anything is searched."""
        self._path = path
        model_bytes, spec_bytes = content(model), content(spec)
        try:
            self._network: Network = read_network(model_bytes)
            self._statement: Statement = state(read_question(spec_bytes))
        except Refused as reason:
            raise UsageError(f"no certificate can be written: {reason}", file=str(model)) from None
        self._hashes = {"model": _sha256(model_bytes), "spec": _sha256(spec_bytes)}
        self.record = Record(self._network)

    def write(self, deadline: Deadline) -> Written:
        """Write the file: under another name first, so that there is never half a one."""
        began, leaves = time.monotonic(), 0
        partial = self._path.with_name(f".{self._path.name}.{os.getpid()}.part")
        header = {"claim": "unsat", "producer": f"netproof {__version__}", **self._hashes}
        try:
            with partial.open("wb") as file, np.errstate(all="ignore"):
                body = Body(file, header)
                for region in self._statement.regions:
                    leaves += self._write_region(body, region, deadline)
                body.close()
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self._path)
        finally:
            partial.unlink(missing_ok=True)
        return Written(self._path, leaves, self._path.stat().st_size, time.monotonic() - began)

    def _write_region(self, body: Body, region: Region, deadline: Deadline) -> int:
        ranges, packed = write_bounds(body, self._network, region, deadline)
        leaves = 0
        for target, rows in zip(region.targets, region.rows, strict=True):
            hints = self.record.hints.get(target, [])
            if hints:
                maker = TreeMaker(self._network, packed, ranges, region, rows, deadline)
                write_tree(body, maker.make(hints))
                leaves += maker.leaves
            else:
                boxes = BoxTreeMaker(self._network, region, rows, ranges, deadline)
                write_boxes(body, boxes.make(), packed)
                leaves += boxes.leaves
        return leaves


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
