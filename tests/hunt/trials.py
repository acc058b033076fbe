"""Families of questions beside those of `generate`: each makes its own question, asks it, and judges what is said."""

from __future__ import annotations

import shutil
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hunt.between import between
from hunt.branches import branches
from hunt.classifiers import classifiers
from hunt.generate import Made, fits
from hunt.judge import Asked, Finding, Run, judge
from hunt.last import places, saturated
from hunt.loop import Tally
from hunt.oracle import TooManyPiecesError
from hunt.runs import runs_for

Trial = Callable[[np.random.Generator, Path, list[Run]], list[tuple[Run, Finding]]]
EVERY = 3  # one seed in so many also makes a trial


def of_question(make: Callable[[np.random.Generator], Made]) -> Trial:
    """The trial of a question whose exact answer `judge` knows how to use."""

    def trial(rng: np.random.Generator, folder: Path, runs: list[Run]) -> list[tuple[Run, Finding]]:
        question, oracle = make(rng)
        if not fits(question, oracle):
            return []
        asked = Asked(question, oracle, folder)
        return [(run, judge(asked, run)) for run in runs]

    return trial


FAMILIES: dict[str, Trial] = {
    "branches": of_question(branches),
    "between": of_question(between),
    "saturated": saturated,
    "places": places,
    "classifiers": classifiers,
}


def family_of(seed: int) -> str:
    return list(FAMILIES)[seed // EVERY % len(FAMILIES)]


def try_seed(seed: int, out: Path, say: Callable[[str], Any], timeout: float = 3.0) -> Tally:
    """Make the trial of a seed, where it has one; what fails is said and saved in a folder of `out`."""
    tally = Tally()
    if seed % EVERY:
        return tally
    family = family_of(seed)
    with tempfile.TemporaryDirectory() as folder:
        for run, finding in _findings(seed, family, Path(folder), timeout):
            tally.add(family, run, finding)
            if finding.fault:
                kept = out / f"{family}{seed}-{run.method}"
                shutil.copytree(folder, kept, dirs_exist_ok=True)
                account = f"{finding.fault}: seed {seed} ({family}), {run}: {finding.detail}"
                (kept / "CASE").write_text(account + "\n")
                say(f"{account}\nsaved in {kept}")
    return tally


def _findings(seed: int, family: str, folder: Path, timeout: float) -> list[tuple[Run, Finding]]:
    rng = np.random.default_rng([seed, 3])
    runs = [run for run in runs_for(seed, timeout=timeout) if not run.method.startswith("bounds:")]
    try:
        return FAMILIES[family](rng, folder, runs)
    except TooManyPiecesError:
        return []
    except Exception as error:  # whatever it is, it is what is looked for
        return [(runs[0], Finding("crash", "crash", "".join(traceback.format_exception(error)[-3:])))]
