"""A failing case on disk: the model, what is asked of it, and how to ask again."""

from __future__ import annotations

import shlex
from pathlib import Path

import onnx

from hunt.generate import Case
from hunt.judge import Finding, Run, answer_words
from hunt.network import to_onnx
from hunt.oracle import Oracle
from hunt.question import Question


def save(folder: Path, question: Question, oracle: Oracle, case: Case, run: Run, finding: Finding) -> None:
    """model.onnx, spec.vnnlib (or property.txt where VNN-LIB has no word for the set), and CASE with the account."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(to_onnx(question.network), str(folder / "model.onnx"))
    if question.has_text:
        (folder / "spec.vnnlib").write_text(question.text())
    else:
        (folder / "property.txt").write_text(f"{question.property()!r}\n")
    answers = answer_words([oracle.answer(d) for d in question.disjuncts])
    lines = [
        f"{finding.fault}: {finding.detail}",
        f"netproof said {finding.status}; the exact least value of each disjunct: {answers}",
        f"seed {case.seed}, family {case.family}, {run}",
        f"all runs of the seed: PYTHONPATH=tests python -m hunt --seed {case.seed}",
    ]
    if question.has_text and not run.method.startswith("bounds:"):
        lines.append(f"this one: {_command(run)}")
    (folder / "CASE").write_text("\n".join(lines) + "\n")


def _command(run: Run) -> str:
    words = ["netproof", "verify", "model.onnx", "spec.vnnlib", "--method", run.method, "--device", "cpu"]
    words += ["--threads", "1", "--seed", str(run.seed), "--timeout", f"{run.timeout:g}"]
    words += [] if run.attack else ["--no-attack"]
    for name, value in run.options.items():
        words += ["--set", f"{name}={value}"]
    return shlex.join(words)
