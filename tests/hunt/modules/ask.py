"""A module of a seed asked about, and each answer compared with the module itself at many points."""

from __future__ import annotations

import importlib.util
import math
import re
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

import netproof
from hunt.judge import Finding
from hunt.modules.write import Asked
from netproof.errors import NetproofError

UNIFORM, CORNERS, STEPS, NEAR = 120, 60, 4, 25  # points: at random, at corners, and around the least, STEPS times
NOISE = {"float16": 3e-2, "float32": 1e-4, "float64": 1e-9}  # what a value may be off by, of the largest
# What no module may be refused for that looks at no values of its input.
_WRONGLY = {"refused for values": "(looks at|reads|holds) values", "refused for its graph": "does not compute"}


@dataclass(frozen=True)
class Answer:
    """What the module says at points of the set."""

    points: Tensor  # (n, *shape)
    values: Tensor  # (n, outputs), float64

    def least(self, row: Tensor) -> float:
        return float((self.values @ row).min())

    @property
    def size(self) -> float:
        return 1.0 + float(self.values.abs().max())


class BrokenModuleError(Exception):
    """The module itself has no answers here: there is nothing to ask."""


def built(asked: Asked, folder: Path) -> nn.Module:
    """Import the source from a file, which torch.jit.script reads again."""
    path = folder / f"module{asked.seed}.py"
    path.write_text(asked.source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    built: nn.Module = module.build()
    return built


def called(module: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        leaves = [leaf for leaf in tree_leaves(module(x.clone())) if isinstance(leaf, Tensor)]
    return torch.cat([leaf.flatten() for leaf in leaves]).double()


def sampled(module: nn.Module, asked: Asked, row: Tensor | None = None) -> Answer:
    """Call the module at random points, at corners, and around those where a row is least."""
    generator = torch.Generator().manual_seed(asked.seed)
    dtype = getattr(torch, asked.dtype)
    centre = torch.from_numpy(asked.centre).double()

    def inside(offsets: Tensor) -> Tensor:
        points = (centre + asked.radius * offsets).to(dtype)
        kept = ((points.double() - centre).abs() <= asked.radius).flatten(1).all(1)
        return points[kept]

    uniform = 2 * torch.rand(UNIFORM, *asked.shape, generator=generator, dtype=torch.float64) - 1
    corners = (2 * torch.rand(CORNERS, *asked.shape, generator=generator, dtype=torch.float64) - 1).sign()
    points = inside(torch.cat([torch.zeros(1, *asked.shape, dtype=torch.float64), uniform, 0.999 * corners]))
    values = _values(module, points)
    for step in range(STEPS if row is not None else 0):
        best = (points[int((values @ row).argmin())].double() - centre) / asked.radius
        moves = torch.randn(NEAR, *asked.shape, generator=generator, dtype=torch.float64) * 0.3**step
        more = inside((best + moves).clamp(-1, 1) * 0.999)
        if len(more):
            points, values = torch.cat([points, more]), torch.cat([values, _values(module, more)])
    return Answer(points, values)


def _values(module: nn.Module, points: Tensor) -> Tensor:
    try:
        values = torch.stack([called(module, point) for point in points])
    except Exception as error:
        raise BrokenModuleError(f"{type(error).__name__}: {error}") from error
    if not bool(values.isfinite().all()):
        raise BrokenModuleError("it answers numbers that are not finite")
    return values


class Interview:
    """What is asked of one module: its bounds, and whether a row stays above a threshold."""

    def __init__(self, asked: Asked, module: nn.Module, timeout: float) -> None:
        self.asked, self.module, self.timeout = asked, module, timeout
        rng = np.random.default_rng([asked.seed, 3])
        plain = sampled(module, asked)
        self.row = torch.from_numpy(rng.choice([-1.0, 1.0, 0.0, 2.0], plain.values.shape[1]))
        self.row[int(rng.integers(len(self.row)))] = 1.0
        self.answer = sampled(module, asked, self.row)
        values = self.answer.values @ self.row
        span = max(float(values.max() - values.min()), 1e-3)
        self.threshold = round(self.answer.least(self.row) - float(rng.choice([-0.3, -0.05, 0.05, 0.5, 2.0])) * span, 6)
        self.slack = NOISE[asked.dtype] * self.answer.size * (1 + float(self.row.abs().sum()))
        self.region = netproof.linf_ball(asked.centre, asked.radius)

    def findings(self) -> list[tuple[str, Finding]]:
        """Ask everything; (question, finding) each."""
        before = self._state()
        found = [(name, self._found(question)) for name, question in (("bounds", self.bounds), ("verify", self.verify))]
        if not self.asked.reads and self._state() != before:
            found.append(("module", Finding("changed", "changed module", "its weights, modes or answers are others")))
        return found

    def _found(self, question: Callable[[], tuple[str, str, str]]) -> Finding:
        began = time.monotonic()
        try:
            status, fault, detail = question()
        except NetproofError as error:
            status, fault, detail = "refused", self._wrongly(str(error)), str(error)
        except Exception as error:  # whatever it is, it is what is looked for
            status, fault, detail = "crash", "crash", "".join(traceback.format_exception(error)[-3:])
        return Finding(status, fault, detail, seconds=time.monotonic() - began)

    def _wrongly(self, message: str) -> str:
        if self.asked.reads:
            return ""
        return next((fault for fault, words in _WRONGLY.items() if re.search(words, message)), "")

    def bounds(self) -> tuple[str, str, str]:
        found = netproof.bounds(self.module, self.region, timeout=self.timeout, device="cpu", threads=1)
        lower, upper = (torch.from_numpy(np.float64(side).reshape(-1)) for side in (found.lower, found.upper))
        values, slack = self.answer.values, NOISE[self.asked.dtype] * self.answer.size
        if len(lower) != values.shape[1]:
            return "bounded", "wrong outputs", f"{len(lower)} outputs, where the module has {values.shape[1]}"
        outside = (values < lower - slack) | (values > upper + slack)
        if bool(outside.any()):
            at, i = (int(v) for v in outside.nonzero()[0])
            detail = f"output {i} in [{lower[i]:.9g}, {upper[i]:.9g}], the module says {values[at, i]:.9g}"
            return "bounded", "wrong bounds", f"{detail} at {self.answer.points[at].tolist()}"
        return "bounded", "", ""

    def verify(self) -> tuple[str, str, str]:
        _, y = netproof.variables(self.module, self.region)
        flat = y.flat
        value = sum(float(c) * flat[i] for i, c in enumerate(self.row))
        verdict = netproof.verify(
            *(self.module, self.region, value >= self.threshold),
            timeout=self.timeout, device="cpu", threads=1,
        )  # fmt: skip
        return str(verdict.status), *self.judged(verdict)

    def judged(self, verdict: netproof.Verdict) -> tuple[str, str]:
        """(fault, detail) of a verdict, both empty where the module agrees."""
        if "contradiction" in verdict.reason:
            return "contradiction", verdict.reason
        least = self.answer.least(self.row) - self.threshold
        said = f"{verdict}, where the module's least margin is at most {least:.9g}"
        if verdict.status == "unsat" and least < -self.slack:
            return "wrong unsat", said
        if verdict.lower_bound is not None and verdict.lower_bound > least + self.slack:
            return "wrong margin", said
        if verdict.status != "sat":
            return "", ""
        assert verdict.witness is not None
        return self._witness(torch.from_numpy(np.asarray(verdict.witness.input)), verdict.witness.output)

    def _witness(self, x: Tensor, output: Any) -> tuple[str, str]:
        if x.shape != self.asked.shape:
            return "wrong witness", f"its shape is {tuple(x.shape)}, not {self.asked.shape}"
        distance = float((x.double() - torch.from_numpy(self.asked.centre).double()).abs().max())
        if distance > self.asked.radius + 1e-12:  # what float64 rounds in the difference
            return "wrong witness", f"{x.tolist()} is {distance:.9g} from the centre"
        own = called(self.module, x.to(getattr(torch, self.asked.dtype)))
        margin = float(own @ self.row) - self.threshold
        gap = float((own - torch.from_numpy(np.asarray(output, np.float64).reshape(-1))).abs().max())
        if self.asked.jumps and not math.isclose(gap, 0.0, abs_tol=self.slack):
            return "", ""  # a jump's two sides, of which float arithmetic chooses one
        if margin > self.slack or gap > self.slack:
            return "wrong witness", f"the module's margin is {margin:.9g} at {x.tolist()}, {gap:.3g} from the replay"
        return "", ""

    def _state(self) -> tuple[Any, ...]:
        weights = {name: value.tolist() for name, value in self.module.state_dict().items()}
        points = self.answer.points[:3]
        return weights, [m.training for m in self.module.modules()], _values(self.module, points).tolist()
