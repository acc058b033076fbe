"""The work of a campaign's workers: warm up, then answer one question after another, with the last network kept."""

from __future__ import annotations

import contextlib
import os
import platform
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netproof.campaign.certificates import Unpaid
from netproof.campaign.devices import Setup
from netproof.core.machine.versions import accelerator, code, versions
from netproof.core.shown.picture import small_layout
from netproof.core.shown.seen import compare
from netproof.errors import NetproofError, UnsupportedOp, UsageError
from netproof.run.record import Record
from netproof.workers.worker import Job

if TYPE_CHECKING:
    from netproof.certificate.destination import Destination
    from netproof.core.deadline import Deadline
    from netproof.core.verdict import Verdict
    from netproof.model.network import Network

WARM = ("conv-3-holds", "fc-4-needs-splits")  # bundled questions: a convolution, and one that takes a search
WARM_LIMIT = 60.0
SLOWER = 3.0  # times as long as before a property may take to be read again


def warm_up(job: Job, *, setup: Setup) -> dict[str, str | None]:
    """Load imports, the device's context and kernels, so that no instance's seconds include them; return versions."""
    if setup.cores is not None:
        os.sched_setaffinity(0, setup.cores)
    from netproof import api
    from netproof.demo import copy_data

    with tempfile.TemporaryDirectory() as folder:
        for instance in copy_data(Path(folder)):
            if instance.name in WARM:
                model, spec = (Path(folder) / name for name in (instance.onnx, instance.vnnlib))
                api.verify(model, spec, device=setup.device, threads=setup.threads, timeout=WARM_LIMIT)
    return {**versions(), "code": code(), "python": platform.python_version(), **accelerator(setup.device)}


class Loaded:
    """The last network, and what tells it from others."""

    def __init__(self) -> None:
        self._sha256 = ""
        self._network: Network | None = None

    def network(self, path: str, sha256: str) -> Network:
        """Return the network of a file; read it again only where it, or a file that it needs, has changed."""
        from netproof.model.load import load_network

        if not sha256 or self._sha256 != sha256:
            self._sha256, self._network = "", None  # the old one's memory first
            network = load_network(path)
            if sha256 and network.identity != sha256:
                raise UsageError("the model changed while the campaign ran", file=path, remedy="run it again")
            self._sha256, self._network = sha256, network
        assert self._network is not None
        return self._network


_loaded = Loaded()


def answer(
    job: Job,
    *,
    onnx: str,
    sha256: str,
    vnnlib: str,
    networks: dict[str, str] | None = None,
    where: Destination | None = None,
    **arguments: Any,
) -> tuple[Record, float, dict[str, Any]]:
    """Answer a question, about one network or several by name; return the record and the seconds that it took.

    The third are more columns of the result: the operator that netproof does not know with the error in words, or how
    a counterexample compares with where it started. where: of the certificate of a proof, which is made later.
    """
    from netproof import api

    _forget_peak_memory()
    try:
        network = networks or _loaded.network(onnx, sha256)
        loaded = job.deadline.elapsed()
        if where is not None:
            arguments["certificate"] = Unpaid(**vars(where), job=job)
        verdict = api.verify(network, vnnlib, **arguments, deadline=job.deadline, progress=job.teller())
    except UnsupportedOp as error:
        refused = Record("error", f"unsupported operator {error.op}", seconds={})
        return refused, job.deadline.elapsed(), {"refused": error.op, "error": str(error)}
    record = Record.of(verdict)
    took = job.deadline.elapsed()
    more = {} if isinstance(network, dict) else _compared(network, vnnlib, verdict, job.deadline)
    return record.but(seconds={"network": loaded, **record.seconds}), took, more


def _compared(network: Network, vnnlib: str, verdict: Verdict, deadline: Deadline) -> dict[str, Any]:
    """Compare a counterexample that is an image with the middle of the input set; empty where there is none.

    The property is read again for it, so only with time to spare: past the limit the worker is ended, and with it the
    answer. Nothing that goes wrong here may cost the answer either.
    """
    witness, spare = verdict.witness, deadline.remaining() - SLOWER * verdict.stats.seconds["load"]
    if witness is None or spare <= 0 or small_layout(witness.given.shape) is None:
        return {}
    if witness.given.size != network.graph.input.size:  # of tied inputs there are more
        return {}
    from netproof.problem.vnnlib.reader import load_property
    from netproof.problem.witness import middle_around

    try:
        original = middle_around(load_property(vnnlib), witness).astype(network.input_dtype)
        scores = network.replay(original.reshape(network.input_shape))
    except (NetproofError, MemoryError, OSError, ValueError):
        return {}
    seen = compare((original, scores), (witness.given.reshape(-1), witness.output))
    return {**seen.to_dict(), "original": " ".join(map(repr, original.tolist()))}


def _forget_peak_memory() -> None:
    """Reset the process's peak of memory, which Linux keeps, so that the next peak is this job's alone."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
