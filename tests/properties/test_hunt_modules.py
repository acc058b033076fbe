"""The hunt among torch modules: its modules run, the judge is not fooled, what fails is kept, and nothing is found.

`make hunt HUNT="--modules"` goes on from here with other seeds.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hunt.judge import Finding
from hunt.modules.ask import Interview, built, sampled
from hunt.modules.hunting import NOTHING, Teller, hunt_modules
from hunt.modules.pieces import PIECES
from hunt.modules.write import Asked, make
from netproof.core.verdict import Status, Verdict, Witness
from netproof.errors import ModelError

WRITTEN = range(150)
HUNTED = range(117, 142)

PLAIN = """
import torch

def build():
    net = torch.nn.Linear(2, 2, bias=False)
    net.weight.data = torch.eye(2)
    return net.eval()
"""


# --- the modules ---


def test_a_seed_stands_for_one_module() -> None:
    for seed in WRITTEN:
        asked, again = make(seed), make(seed)
        assert (asked.source, asked.shape, asked.radius) == (again.source, again.shape, again.radius)
        assert np.array_equal(asked.centre, again.centre)
        ast.parse(asked.source)


def test_every_kind_of_module_comes_up() -> None:
    modules = [make(seed) for seed in range(3 * len(WRITTEN))]
    assert {len(m.shape) for m in modules} == {1, 2, 3, 4}
    assert {m.dtype for m in modules} == {"float16", "float32", "float64"}
    assert 0.2 < sum(bool(m.reads) for m in modules) / len(modules) < 0.5
    assert {m.reads.partition("-")[0] for m in modules} == {"", "rare", "lost", "asked"}
    sources = "".join(m.source.partition("def moved")[2] for m in modules)
    for sign in ("register_forward_hook", "parametriz", "jit.script", "torch.compile", "register_buffer", ".weight = "):
        assert sign in sources


def test_nearly_all_modules_run(tmp_path: Path) -> None:
    failed = []
    for seed in WRITTEN:
        asked = make(seed)
        try:
            values = sampled(built(asked, tmp_path), asked).values
        except Exception as error:  # a module may raise whatever its pieces raise
            failed.append((seed, error))
            continue
        assert values.shape[1] in (2, 3)
    assert len(failed) <= 0.05 * len(WRITTEN), failed


@pytest.mark.parametrize("name", PIECES)
def test_pieces_fit_some_shape(name: str) -> None:
    assert any(PIECES[name].fits(shape) for shape in [(1, 3), (1, 2, 3), (1, 1, 2, 3), (3,)])


# --- the judge ---


@pytest.fixture
def interview(tmp_path: Path) -> Interview:
    """Two outputs that are the two inputs, on [−1, 1]; asked whether the first one is 0 or more."""
    asked = Asked(0, PLAIN, (1, 2), "", False, "float32", np.zeros((1, 2), np.float32), 1.0)
    made = Interview(asked, built(asked, tmp_path), 5.0)
    made.row, made.threshold = torch.tensor([1.0, 0.0], dtype=torch.float64), 0.0
    return made


def witness(x: list[list[float]], y: list[list[float]]) -> Witness:
    return Witness(np.array(x, dtype=np.float32), np.array(y, dtype=np.float32))


def test_netproof_itself_is_right(interview: Interview) -> None:
    assert [(name, finding.fault) for name, finding in interview.findings()] == [("bounds", ""), ("verify", "")]


@pytest.mark.parametrize(
    ("verdict", "fault"),
    [
        (Verdict(Status.SAT, witness=witness([[-0.5, 0.0]], [[-0.5, 0.0]])), ""),
        (Verdict(Status.UNKNOWN, lower_bound=-1.5), ""),
        (Verdict(Status.UNSAT, lower_bound=0.5), "wrong unsat"),
        (Verdict(Status.UNKNOWN, lower_bound=-0.5), "wrong margin"),
        (Verdict(Status.SAT, witness=witness([[0.5, 0.0]], [[0.5, 0.0]])), "wrong witness"),  # violates nothing
        (Verdict(Status.SAT, witness=witness([[0.5, 0.0]], [[-0.5, 0.0]])), "wrong witness"),  # another network's
        (Verdict(Status.SAT, witness=witness([[-1.5, 0.0]], [[-1.5, 0.0]])), "wrong witness"),  # outside
        (Verdict(Status.SAT, witness=witness([[[-0.5, 0.0]]], [[-0.5, 0.0]])), "wrong witness"),  # of another shape
        (Verdict(Status.UNKNOWN, "contradiction"), "contradiction"),
    ],
)
def test_a_verdict_is_judged(interview: Interview, verdict: Verdict, fault: str) -> None:
    assert interview.judged(verdict)[0] == fault


def answering(answer: Any) -> Callable[..., Any]:
    def asked(*args: object, **kwargs: object) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return asked


class Ranges:
    def __init__(self, lower: list[float], upper: list[float]) -> None:
        self.lower, self.upper = np.array([lower]), np.array([upper])


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (Ranges([-1, -1], [1, 1]), ""),
        (Ranges([-0.5, -1], [1, 1]), "wrong bounds"),
        (Ranges([-1, -1], [1, 0.5]), "wrong bounds"),
        (Ranges([-1], [1]), "wrong outputs"),
        (ModelError("forward() looks at values of its input"), "refused for values"),
        (ModelError("the module does not compute what its exported graph does"), "refused for its graph"),
        (ModelError("unsupported operator Unique"), ""),
        (RuntimeError("broken"), "crash"),
    ],
)
def test_bounds_are_judged(interview: Interview, monkeypatch: pytest.MonkeyPatch, answer: Any, fault: str) -> None:
    monkeypatch.setattr("netproof.api.bounds", answering(answer))
    found = dict(interview.findings())
    assert found["bounds"].fault == fault
    assert found["verify"].fault == ""


def test_a_module_that_looks_at_values_may_be_refused(interview: Interview, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Interview(
        Asked(**{**vars(interview.asked), "reads": "rare-item"}), interview.module, interview.timeout
    )  # fmt: skip
    monkeypatch.setattr("netproof.api.bounds", answering(ModelError("forward() looks at values of its input")))
    assert dict(reading.findings())["bounds"].fault == ""


@pytest.mark.parametrize("change", ["weight", "mode"])
def test_a_module_that_is_left_changed_is_noticed(
    interview: Interview, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    def bounds(module: torch.nn.Module, *args: object, **kwargs: object) -> Ranges:
        with torch.no_grad():
            _ = next(module.parameters()).mul_(0.5) if change == "weight" else module.train()
        return Ranges([-1, -1], [1, 1])

    monkeypatch.setattr("netproof.api.bounds", bounds)
    assert dict(interview.findings())["module"].fault == "changed module"


# --- what fails is kept, and can be asked again ---


def test_a_failing_module_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netproof.api.bounds", answering(RuntimeError("broken")))
    said: list[str] = []
    out = tmp_path / "out"
    tally = hunt_modules(HUNTED[:1], Teller(out, said.append, stop=True), out=out)
    assert tally.faults == {"crash": 1}
    (folder,) = out.iterdir()
    case = (folder / "CASE").read_text()
    assert case.startswith("crash")
    assert "broken" in case
    assert f"--modules --seed {HUNTED[0]}" in case
    assert (folder / "module.py").read_text() == make(HUNTED[0]).source
    assert str(folder) in said[0]


# --- the hunt ---


@pytest.mark.slow
def test_no_module_is_answered_wrongly(tmp_path: Path) -> None:
    found: list[tuple[int, str, Finding]] = []

    def tell(asked: Asked, question: str, finding: Finding) -> bool:
        found.append((asked.seed, question, finding))
        return True

    tally = hunt_modules(HUNTED, tell, out=tmp_path, timeout=5.0)
    assert found == []
    answered = sum(n for (_, status, _), n in tally.statuses.items() if status not in ("refused", NOTHING))
    assert answered > 0.4 * tally.runs
