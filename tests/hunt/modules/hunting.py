"""The hunt among modules: seeds in turn, a tally, and failing cases saved."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from hunt.judge import Finding
from hunt.loop import Tally
from hunt.modules.ask import BrokenModuleError, Interview, built
from hunt.modules.write import Asked, make

OnFault = Callable[[Asked, str, Finding], bool]  # whether to go on
NOTHING = "no answers"  # status of a module that does not run on its own input


class Teller:
    """Says what failed, and keeps it."""

    def __init__(self, out: Path, say: Callable[[str], None], *, stop: bool) -> None:
        self._out, self._say, self._stop = out, say, stop

    def __call__(self, asked: Asked, question: str, finding: Finding) -> bool:
        folder = self._out / f"module{asked.seed}-{question}"
        save_module(folder, asked, question, finding)
        how = f" ({asked.reads})" if asked.reads else ""
        self._say(f"{finding.fault}: module {asked.seed}{how}, {question}: {finding.detail}\nsaved in {folder}")
        return not self._stop


def hunt_modules(seeds: Iterable[int], on_fault: OnFault, *, out: Path, timeout: float = 3.0) -> Tally:
    """Ask about the module of every seed. While one is asked, its source lies in `out`, for a crash of the process."""
    tally = Tally()
    out.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        asked = make(seed)
        tally.seeds += 1
        beside = out / f"asking-{os.getpid()}.py"
        beside.write_text(asked.source, encoding="utf-8")
        findings = _findings(asked, timeout)
        beside.unlink()
        for question, finding in findings:
            tally.statuses["reads" if asked.reads else f"module {question}", finding.status, False] += 1
            if finding.fault:
                tally.faults[finding.fault] += 1
                if not on_fault(asked, question, finding):
                    return tally
    return tally


def _findings(asked: Asked, timeout: float) -> list[tuple[str, Finding]]:
    with tempfile.TemporaryDirectory() as folder:
        try:
            module = built(asked, Path(folder))
            interview = Interview(asked, module, timeout)
        except BrokenModuleError as error:
            return [("module", Finding(NOTHING, "", str(error)))]
        return interview.findings()


def save_module(folder: Path, asked: Asked, question: str, finding: Finding) -> None:
    """module.py, and CASE with the account."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "module.py").write_text(asked.source, encoding="utf-8")
    lines = [
        f"{finding.fault}: {finding.detail}",
        f"netproof said {finding.status} when it was asked for: {question}",
        f"the centre of shape {asked.shape} and the radius: {asked.centre.tolist()}, {asked.radius!r}",
        f"how it looks at values: {asked.reads or 'not at all'}",
        f"again: PYTHONPATH=tests python -m hunt --modules --seed {asked.seed}",
    ]
    (folder / "CASE").write_text("\n".join(lines) + "\n", encoding="utf-8")
