"""An answer to a question, from the worker that found it to the files and the exit code that it becomes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from netproof.cli.exits import EXIT_BUG, EXIT_INTERRUPTED
from netproof.cli.options import Engine
from netproof.cli.process.supervisor import Ending, Outcome
from netproof.cli.show.output import Hashes, Outputs, to_json
from netproof.cli.show.witness_file import Saver, serialised
from netproof.core.machine.versions import accelerator, versions
from netproof.core.reasons import CONTRADICTION
from netproof.run.record import Record

if TYPE_CHECKING:
    from netproof.core.verdict import Verdict


@dataclass(frozen=True)
class Answer:
    """The record of a run and what belongs beside it, written by the worker or in its place."""

    record: Record
    device: str
    file: str | bytes | None = None  # the witness as a file, where that is not the record's text
    note: str = ""
    accelerator: Mapping[str, str | None] = field(default_factory=dict)
    tensors: Mapping[str, bytes] = field(default_factory=dict)  # of the witness, by file, where they are asked for

    @property
    def saved(self) -> str | bytes | None:
        """Return the content of the file that --witness names; None where there is no witness."""
        return self.file or self.record.text or None


def reply(verdict: Verdict, engine: Engine, saver: Saver) -> Answer:
    """Make what the worker sends back: plain values, and the witness as a file where it is not to be text."""
    device, file, notes = used_device(engine.device), None, [""]
    tensors: dict[str, bytes] = {}
    if verdict.witness is not None:
        file, about = saver.content(verdict.witness.given)
        notes = [verdict.witness.note, about]
        tensors = serialised(verdict.witness) if saver.serialise else {}
    return Answer(Record.of(verdict), device, file, "; ".join(filter(None, notes)), accelerator(device), tensors)


def used_device(asked: str) -> str:
    """Return the device behind `auto`, once the engine has run."""
    if asked != "auto" or "torch" not in sys.modules:
        return asked
    from netproof.methods.device import resolve_device

    return str(resolve_device(asked))


def deliver(
    found: Answer,
    text: str,
    engine: Engine,
    outputs: Outputs,
    asked: tuple[str, ...],
    hashes: Hashes | None = None,
    **more: Any,
) -> str | None:
    """Write the files, then `text` to stdout; return the path of the witness, where it was written."""
    contents: dict[str, str | bytes | None] = {"--results-file": text, "--witness": found.saved}
    outputs.add_files(found.tensors)
    if outputs.paths["--json"] is not None:
        contents["--json"] = to_json({**document(found, engine, asked, hashes or Hashes(asked)), **more})
    return outputs.paths["--witness"] if "--witness" in outputs.deliver(contents, text) else None


def document(found: Answer, engine: Engine, asked: tuple[str, ...], hashes: Hashes) -> dict[str, Any]:
    """Make the JSON document, its keys in the order of the contract."""
    plain = dict(vars(found.record))
    witness, wrong = plain.pop("witness"), plain.pop(CONTRADICTION)
    del plain["text"]
    model, spec, *others = asked
    return {
        **plain,
        **({CONTRADICTION: wrong} if wrong else {}),
        "method": engine.method,
        "device": found.device,
        "seed": engine.seed,
        "witness": witness,
        "certificate": None,
        "model": {**hashes.of(model), "external": hashes.external},
        **({"other_models": [hashes.of(other) for other in others]} if others else {}),
        "property": hashes.of(spec),
        "versions": {**versions(), "cuda": None, "gpu": None, **found.accelerator},
    }


def ending_code(record: Record, outcome: Outcome) -> int:
    """Return the exit code of a run that ended with this record."""
    if outcome.ending == Ending.INTERRUPTED:
        return EXIT_INTERRUPTED
    return EXIT_BUG if record.reason == CONTRADICTION else 0
