"""Which runs a seed makes: every method comes up, with the attack on or off and now and then with odd options."""

from __future__ import annotations

import numpy as np

from hunt.generate import Case
from hunt.judge import Run
from netproof.methods.registry import METHODS
from netproof.run.ranges import RANGE_METHODS

BRIEF = {"root_steps": "20", "neuron_steps": "5", "steps": "5"}
ODD = {
    "batch": ("1", "2", "4"),
    "lp_threshold": ("1", "4"),
    "patience": ("1",),
    "lp_turns": ("false", "true"),
    "lp_batch": ("0", "3"),
    "rebound": ("0",),
    "own_slopes": ("true",),
    "ranked": ("true",),
    "parallel": ("false",),
    "grow": ("true",),
    "gains_only": ("true",),
    "free_splits": ("false", "true"),
    "layer_slopes": ("false", "true"),
    "fresh": ("false", "true"),
    "joint": ("false", "true"),
    "strict": ("false", "true"),
    "lp_restart": ("false", "true"),
    "gain": ("0.01",),
    "rebound_after": ("1",),
    "rebound_gain": ("0",),
    "tighter_roots": ("0", "1"),
    "probes": ("0",),
    "envelope": ("false",),
    "attack_after": ("0", "1"),
    "box_batches": ("0", "1"),
}


def runs_of(case: Case, count: int = 4, timeout: float = 3.0) -> list[Run]:
    """`auto`, then other methods in turn; one seed in four also asks for ranges."""
    return runs_for(case.seed, boxes=case.question.has_text, count=count, timeout=timeout)


def runs_for(seed: int, *, boxes: bool = True, count: int = 4, timeout: float = 3.0) -> list[Run]:
    """The runs of a seed; boxes: whether its sets are that, as input splitting refuses balls."""
    rng = np.random.default_rng([seed, 1])
    others = [m for m in METHODS if m != "auto" and (boxes or m != "input-split")]
    first = int(rng.integers(len(others)))
    names = ["auto", *(others[(first + i) % len(others)] for i in range(count - 1))]
    runs = [
        Run(name, bool(rng.random() < 0.5), _options(rng, name), timeout, int(rng.integers(1000))) for name in names
    ]
    if seed % 4 == 0:
        runs.append(Run(f"bounds:{RANGE_METHODS[seed // 4 % len(RANGE_METHODS)]}", timeout=timeout))
    return runs


def _options(rng: np.random.Generator, method: str) -> dict[str, str]:
    """Short optimisation, which changes no verdict but how soon it comes, and at times small batches or thresholds."""
    fields = {f.name for f in METHODS[method].fields}
    brief = {} if method in ("lirpa-fixed", "auto") else BRIEF
    options = {name: value for name, value in brief.items() if name in fields}
    for name, values in ODD.items():
        if name in fields and rng.random() < 0.15:
            options[name] = str(rng.choice(values))
    return options
