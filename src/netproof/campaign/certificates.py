"""Certificates of a campaign: after a proof is stored, its worker writes the certificate, and then goes on.

So no run that is timed has a certificate written beside it, and no run pays for one: neither for what is read of its
files before the search, nor for the writing.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netproof.certificate.destination import SUFFIX, Destination
from netproof.certificate.state import Certificate, reason_of
from netproof.core.reasons import INTERRUPTED
from netproof.errors import UsageError

if TYPE_CHECKING:
    from netproof.campaign.jobs import Job
    from netproof.certificate.record import Recording
    from netproof.model.combined import AnyNetwork
    from netproof.problem.property import Property
    from netproof.workers import worker

LONGEST = 200  # bytes of a file's name, before a hash and the suffix


def destination(job: Job, worker: int) -> Destination:
    """Return where the certificate of a job goes: DIR/BENCHMARK/MODEL--PROPERTY--METHOD.npcert."""
    wish, instance = job.wish, job.instance
    assert wish is not None
    folder = wish.folder / instance.benchmark
    folder.mkdir(parents=True, exist_ok=True)
    parts = zip(instance.names, ("onnx", "vnnlib"), strict=True)  # the folders that VNN-COMP has them in, and suffixes
    names = [name.removesuffix(".gz").removesuffix(f".{kind}").removeprefix(f"{kind}/") for name, kind in parts]
    name = "--".join([*names, job.method])
    name = _short(name.replace("/", "_").replace(" ", "_"))
    files = (None if len(instance.networks) > 1 else instance.onnx, instance.vnnlib)
    room = wish.room / str(worker)
    return Destination(folder / f"{name}{SUFFIX}", room, wish.seconds, wish.check, False, *files)


def _short(name: str) -> str:
    """Return a name that a file can have; where it is cut, a hash tells it from others."""
    data = name.encode("utf-8", "surrogateescape")
    if len(data) <= LONGEST:
        return name
    return f"{data[:LONGEST].decode('utf-8', 'ignore')}-{hashlib.sha256(data).hexdigest()[:16]}"


def unfinished(path: Path, why: str = INTERRUPTED, limit: float = 0.0) -> dict[str, Any]:
    """Return what is known of a certificate that is not there."""
    return Certificate(str(path), reason=why, limit=limit).to_dict()


@dataclass(frozen=True)
class Unpaid(Destination):
    """A destination whose reading is no part of the run's time; what it refuses is searched without a certificate."""

    job: worker.Job = field(kw_only=True)

    def begin(self, model: Any, spec: Any, network: AnyNetwork, property: Property) -> Recording:
        from netproof.certificate.record import NoRecording

        began = time.monotonic()
        self.job.tell({"reading": self.seconds})
        try:
            return super().begin(model, spec, network, property)
        except (UsageError, MemoryError) as error:
            why = reason_of(error) if isinstance(error, UsageError) else "memory ran out"
            return NoRecording(Certificate(str(self.path), reason=why, limit=self.seconds))
        finally:
            took = time.monotonic() - began
            self.job.deadline.leave_out(took)
            self.job.tell({"read": took})


def certify(job: worker.Job, *, where: Destination) -> dict[str, Any]:
    """Write and check the certificate of what this worker has proved last; return what became of it."""
    try:
        request = where.request()
        return request.finish(request.subject()).to_dict()
    except UsageError as error:
        return unfinished(where.path, reason_of(error), where.seconds)
