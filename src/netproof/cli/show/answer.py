"""An answer to a question, from the worker that found it to the files and the exit code that it becomes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from netproof.cli.exits import EXIT_BUG, EXIT_INTERRUPTED
from netproof.cli.options import Engine
from netproof.cli.process.supervisor import Ending, Outcome
from netproof.cli.show.output import Hashes, Outputs, to_json
from netproof.cli.show.seen import Viewer
from netproof.cli.show.witness_file import Saver, serialised
from netproof.core.machine.versions import accelerator, versions
from netproof.core.reasons import CONTRADICTION
from netproof.core.shown.seen import Seen
from netproof.run.record import Record
from netproof.run.schema import VERSION

if TYPE_CHECKING:
    from netproof.core.verdict import Verdict, Witness

CUT_SHORT = "the run ended before that"


@dataclass(frozen=True)
class Answer:
    """The record of a run and what belongs beside it, written by the worker or in its place."""

    record: Record
    device: str
    file: str | bytes | None = None  # the witness as a file, where that is not the record's text
    note: str = ""
    accelerator: Mapping[str, str | None] = field(default_factory=dict)
    tensors: Mapping[str, bytes] = field(default_factory=dict)  # of the witness, by file, where they are asked for
    seen: Seen | None = None  # the witness as people see it
    undrawn: str = ""  # why the picture of the witness is not there, where one was asked for

    @property
    def saved(self) -> str | bytes | None:
        """Return the content of the file that --witness names; None where there is no witness."""
        return self.file or self.record.text or None

    @property
    def witness(self) -> str:
        """Return the witness as stdout has it; empty where there is none."""
        return self.record.text


def reply(verdict: Verdict, engine: Engine, saver: Saver) -> Answer:
    """Make what the worker sends back: plain values, and the witness as a file where it is not to be text."""
    device, file, notes = used_device(engine.device), None, [""]
    tensors: dict[str, bytes] = {}
    if verdict.witness is not None:
        file, about = saver.content(verdict.witness.given)
        notes = [verdict.witness.note, about]
        tensors = serialised(verdict.witness) if saver.serialise else {}
    note = "; ".join(filter(None, notes))
    undrawn = "" if verdict.witness is None else CUT_SHORT  # until it is looked at
    return Answer(Record.of(verdict), device, file, note, accelerator(device), tensors, undrawn=undrawn)


def looked_at(found: Answer, witness: Witness, viewer: Callable[[], Viewer], *, drawn: bool) -> Answer:
    """Add what a counterexample looks like; where its picture fails the answer stands, and says why it has none."""
    try:
        return replace(found, seen=viewer().see(witness), undrawn="")
    except Exception as error:
        if not drawn:
            raise
        return replace(found, undrawn=" ".join(f"{type(error).__name__}: {error}".split()))


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
) -> list[str]:
    """Write the files, then `text` to stdout; return the paths of those that show the witness.

    A terminal is not filled with the numbers of a witness: the summary says how to get them.
    """
    contents: dict[str, str | bytes | None] = {"--results-file": text, "--witness": found.saved}
    contents["--picture"] = None if found.seen is None else found.seen.picture
    if found.undrawn:
        outputs.miss("--picture", f"the counterexample could not be drawn: {found.undrawn}")
    outputs.add_files(found.tensors)
    if outputs.paths["--json"] is not None:
        contents["--json"] = to_json({**document(found, engine, asked, hashes or Hashes(asked)), **more})
    written = outputs.deliver(contents, text.removesuffix(found.witness) if sys.stdout.isatty() else text)
    return [str(outputs.paths[option]) for option in ("--witness", "--picture") if option in written]


def document(found: Answer, engine: Engine, asked: tuple[str, ...], hashes: Hashes) -> dict[str, Any]:
    """Make the JSON document, its keys in the order of the contract."""
    plain = dict(vars(found.record))
    witness, wrong, about = plain.pop("witness"), plain.pop(CONTRADICTION), plain.pop("about")
    certificate = plain.pop("certificate")
    del plain["text"]
    model, spec, *others = asked
    return {
        "schema": VERSION,
        **plain,
        **({CONTRADICTION: wrong} if wrong else {}),
        "method": engine.method,
        "device": found.device,
        "seed": engine.seed,
        "witness": witness,
        "about": about,
        "certificate": certificate,
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
