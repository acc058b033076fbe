"""One run of netproof on a question, and what exact arithmetic and a replay of our own have to say of it."""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

import netproof
from hunt.network import to_onnx
from hunt.oracle import Answer, Oracle, scale_of
from hunt.question import Disjunct, InputSet, Question
from netproof.errors import NetproofError

NEAR = 1e-5  # of the numbers that cancel: nearer to 0 than this is a tie, for float32 cannot tell
NOISE = 1e-4  # of the same: what a value evaluated in float32 may be off by
EXACT = 1e-5  # what an exact range may be off by, absolute and relative

DEFINITE = ("sat", "unsat")


@dataclass(frozen=True)
class Run:
    """How netproof is asked; `method` is one of its methods, or "bounds:" and one of its range methods."""

    method: str
    attack: bool = True
    options: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 3.0
    seed: int = 0


@dataclass(frozen=True)
class Finding:
    """What came of a run. `fault` is empty, or names what is wrong."""

    status: str
    fault: str = ""
    detail: str = ""
    near: bool = False  # whether the question is a tie for float32
    seconds: float = 0.0


class Asked:
    """A question with its exact answers and its files."""

    def __init__(self, question: Question, oracle: Oracle, folder: Path) -> None:
        self.question, self.oracle = question, oracle
        self.answers = [oracle.answer(d) for d in question.disjuncts]
        self.scales = [scale_of(oracle, d) for d in question.disjuncts]
        self.model, self.spec = folder / "model.onnx", folder / "spec.vnnlib"
        self._proto = to_onnx(question.network)
        onnx.save(self._proto, str(self.model))
        if question.has_text:
            self.spec.write_text(question.text())
        self._session: onnxruntime.InferenceSession | None = None

    @property
    def violated(self) -> bool:
        return any(a.violated for a in self.answers)

    @property
    def near(self) -> bool:
        """Whether no violation is clear of rounding, nor all of them clearly out of reach."""
        pairs = list(zip(self.answers, self.scales, strict=True))
        if any(a.least < -Fraction(NEAR * s) for a, s in pairs):
            return False
        return any(a.least <= Fraction(NEAR * s) for a, s in pairs)

    def replay(self, x: np.ndarray) -> np.ndarray:
        if self._session is None:
            self._session = onnxruntime.InferenceSession(
                self._proto.SerializeToString(), providers=["CPUExecutionProvider"]
            )
        return self._session.run(None, {"v0": x})[0]


def judge(asked: Asked, run: Run) -> Finding:
    """Ask, and compare. An error that netproof words itself is a refusal, any other a crash."""
    began = time.monotonic()
    try:
        with contextlib.chdir(asked.model.parent):  # where a case that contradicts itself is kept
            status, fault, detail = _bounds(asked, run) if run.method.startswith("bounds:") else _verify(asked, run)
    except NetproofError as error:
        status, fault, detail = "refused", "refused", str(error)
    except Exception as error:  # whatever it is, it is what is looked for
        status, fault, detail = "crash", "crash", "".join(traceback.format_exception(error)[-3:])
    return Finding(status, fault, detail, asked.near, time.monotonic() - began)


def _verify(asked: Asked, run: Run) -> tuple[str, str, str]:
    spec = str(asked.spec) if asked.question.has_text else asked.question.property()
    verdict = netproof.verify(
        str(asked.model),
        spec,
        method=run.method,
        attack=run.attack,
        options=dict(run.options),
        timeout=run.timeout,
        seed=run.seed,
        device="cpu",
        threads=1,
    )
    status = str(verdict.status)
    return status, *judged(asked, verdict)


def judged(asked: Asked, verdict: netproof.Verdict) -> tuple[str, str]:
    """(fault, detail) of a verdict; both empty where nothing is wrong with it."""
    if "contradiction" in verdict.reason:
        return "contradiction", f"{verdict.status}: {verdict.reason}"
    if (verdict.witness is not None) != (verdict.status == "sat"):
        return "wrong witness", f"{verdict.status} with witness {verdict.witness}"
    if verdict.status == "unsat" and asked.violated:
        worst = min(a.least for a in asked.answers if a.violated)
        return "wrong unsat", f"the exact least value is {float(worst):.17g}"
    if verdict.status == "sat":
        wrong = _witness(asked, verdict)
        if wrong:
            return "wrong witness", wrong
    return _wrong_bounds(asked, verdict)


def _wrong_bounds(asked: Asked, verdict: netproof.Verdict) -> tuple[str, str]:
    least = min(a.least for a in asked.answers)
    lower, upper = verdict.lower_bound, verdict.upper_bound
    if lower is not None and Fraction(lower) > least:
        return "wrong lower bound", f"{lower!r} above the exact least value {float(least):.17g}"
    if lower is not None and verdict.status == "unsat" and lower < 0:
        return "unsat without a proof", f"lower bound {lower!r}"
    if upper is not None and Fraction(upper) < least - Fraction(NOISE * max(asked.scales)) - Fraction(1, 10**30):
        return "wrong upper bound", f"{upper!r} below the exact least value {float(least):.17g}"
    return "", ""


def _witness(asked: Asked, verdict: netproof.Verdict) -> str:
    """What is wrong with a witness: it must lie in a set and violate in a session of ours, with no tolerance."""
    witness = verdict.witness
    assert witness is not None
    if witness.input.dtype != np.float32:
        return f"an input of {witness.input.dtype}"
    replayed = asked.replay(witness.input)
    if not np.array_equal(replayed, witness.output):
        return f"onnxruntime answers {replayed.tolist()}, not {witness.output.tolist()}"
    x, y = ([Fraction(float(v)) for v in side.reshape(-1)] for side in (witness.input, replayed))
    hit = [d for d in asked.question.disjuncts if inside(d.inputs, x, bool(witness.note)) and _all_hold(d, x, y)]
    if not hit:
        return f"no disjunct holds at {witness.input.tolist()} -> {replayed.tolist()}"
    real = asked.oracle.outputs(x)
    if verdict.arithmetic == "real" and not any(_all_hold(d, x, real) for d in hit):
        return f"real arithmetic gives {[float(v) for v in real]} at {witness.input.tolist()}"
    return ""


def _all_hold(disjunct: Disjunct, x: Sequence[Fraction], y: Sequence[Fraction]) -> bool:
    return all(row.holds(x, y) for row in disjunct.rows)


def inside(inputs: InputSet, x: Sequence[Fraction], pinned: bool) -> bool:
    """As written; a side of one number may take the float32 nearest to it, where the witness says so."""
    for lo, v, hi in zip(inputs.lower, x, inputs.upper, strict=True):
        if not lo <= v <= hi and not (pinned and lo == hi and _nearest(lo, v)):
            return False
    return inputs.in_ball(x)


def _nearest(value: Fraction, single: Fraction) -> bool:
    near = np.float32(float(single))
    gap = abs(single - value)
    return all(gap <= abs(Fraction(float(np.nextafter(near, np.float32(side)))) - value) for side in (-np.inf, np.inf))


def _bounds(asked: Asked, run: Run) -> tuple[str, str, str]:
    """Ranges of the outputs over the first disjunct's set."""
    inputs = asked.question.disjuncts[0].inputs
    alone = Question(asked.question.network, asked.question.direction, asked.question.disjuncts[:1])
    method = run.method.removeprefix("bounds:")
    found = netproof.bounds(
        str(asked.model), alone.property(), method=method, timeout=run.timeout, device="cpu", threads=1
    )
    sides = zip(found.lower.reshape(-1), found.upper.reshape(-1), asked.oracle.ranges(inputs), strict=True)
    status = "exact" if found.exact else "bounded"
    for i, (lower, upper, (least, most)) in enumerate(sides):
        detail = f"output {i} in [{lower!r}, {upper!r}], exactly [{float(least):.17g}, {float(most):.17g}]"
        if _above(lower, least) or _above(-upper, -most):
            return status, "wrong range", detail
        slack = EXACT * (1 + max(abs(float(least)), abs(float(most))) + max(asked.scales))
        if found.exact and (float(least) - lower > slack or upper - float(most) > slack):
            return status, "loose exact range", detail
    return status, "", ""


def _above(bound: float, value: Fraction) -> bool:
    return bool(np.isnan(bound)) or (bound != -np.inf and (bound == np.inf or Fraction(float(bound)) > value))


def answer_words(answers: Sequence[Answer]) -> str:
    return ", ".join(f"{float(a.least):.6g}{' violated' if a.violated else ''}" for a in answers)
