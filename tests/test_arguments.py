"""What a Python program passes wrongly is refused in one line that says what it was, and torch stays as it was."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import netproof
from netproof.api import Progress
from netproof.numerics import float32_is_strict, use_strict_float32
from netproof.problem.specs import output_constraint
from support.api import module


def ball() -> netproof.InputRegion:
    return netproof.linf_ball(np.zeros((1, 2)), 0.01)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"timeout": float("nan")}, "timeout cannot be nan"),
        ({"timeout": float("inf")}, "timeout cannot be inf"),
        ({"timeout": -1}, "timeout cannot be -1"),
        ({"timeout": "5"}, "timeout cannot be '5'"),
        ({"timeout": True}, "timeout cannot be True"),
        ({"deadline": 5}, "deadline cannot be 5"),
        ({"threads": "2"}, "threads cannot be '2'"),
        ({"threads": 0}, "threads cannot be 0"),
        ({"threads": True}, "threads cannot be True"),
        ({"threads": 1.0}, "threads cannot be 1.0"),
        ({"device": 0}, "device cannot be 0"),
        ({"method": ["auto"]}, "method cannot be"),
        ({"options": [("batch", 1)]}, "options cannot be"),
        ({"options": {"nosuch": 1}}, "nosuch: method 'auto' has no such field"),
        ({"options": {"batch": True}}, "batch=True: not an int"),
        ({"options": {"batch": 1.5}}, "batch=1.5: not an int"),
        ({"options": {"rate": float("inf")}}, "rate=inf: outside"),
        ({"options": {"leaf_lp": 1}}, "leaf_lp=1: not a bool"),
        ({"options": {"leaf_lp": None}}, "leaf_lp=None: not a bool"),
        ({"progress": True}, "progress cannot be True"),
        ({"spec": lambda x: x}, "spec cannot be"),
        ({"spec": None}, "spec cannot be None"),
    ],
)
@pytest.mark.parametrize("function", ["verify", "bounds"])
def test_wrong_arguments(given: dict[str, Any], said: str, function: str) -> None:
    arguments: dict[str, Any] = {"spec": ball(), "device": "cpu", **given}
    model = netproof.load_network(module(2, 3, 2), example_shape=(1, 2))
    with pytest.raises(netproof.UsageError, match=said) as caught:
        getattr(netproof, function)(model, arguments.pop("spec"), **arguments)
    assert "--set" not in str(caught.value)
    assert str(caught.value).endswith(")"), "the remedy comes last, in brackets"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"label": 1.0}, "label cannot be 1.0"),
        ({"label": True}, "label cannot be True"),
        ({"label": 7}, "label 7 is not an output"),
        ({"label": 0, "targets": 1}, "targets cannot be 1"),
        ({"label": 0, "targets": [0]}, "other than itself"),
        ({"label": 0, "seed": None}, "seed cannot be None"),
        ({"label": 0, "seed": 1.0}, "seed cannot be 1.0"),
        ({"label": 0, "seed": True}, "seed cannot be True"),
        ({"label": 0, "seed": -1}, "seed cannot be -1"),
        ({"label": 0, "attack": 1}, "attack cannot be 1"),
    ],
)
def test_wrong_arguments_of_verify(given: dict[str, Any], said: str) -> None:
    with pytest.raises(netproof.UsageError, match=said):
        netproof.verify(module(2, 3, 2), ball(), device="cpu", **given)


def test_numbers_of_numpy_are_numbers() -> None:
    verdict = netproof.verify(
        module(2, 3, 2),
        ball(),
        label=np.int64(0),
        targets=np.array([1]),
        timeout=np.float32(60),
        threads=np.int64(1),
        seed=np.int32(3),
        device="cpu",
        options={"batch": np.int64(4), "rate": np.float64(0.5)},
    )
    assert verdict.status in ("sat", "unsat")


class Faulty(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        known: dict[str, torch.Tensor] = {}
        return known["weight"] * x


def test_a_module_that_raises_is_named_with_what_it_raised() -> None:
    with pytest.raises(netproof.UsageError, match="Faulty raised KeyError: 'weight'"):
        netproof.verify(Faulty(), ball(), label=0, device="cpu")


# --- torch is left as it was found ---

SETTINGS = {
    "as it comes": lambda: None,
    "fast float32": lambda: torch.set_float32_matmul_precision("medium"),
    "fast float32 by its newer name": lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
    "fast convolutions": lambda: setattr(torch.backends.cudnn, "benchmark", True),
    "float64": lambda: torch.set_default_dtype(torch.float64),
    "three threads": lambda: torch.set_num_threads(3),
    "another device": lambda: torch.set_default_device("meta"),
    "no gradients": lambda: torch.set_grad_enabled(False),
}


# Ways to let torch round products of float32 matrices more coarsely than float32, by older and newer names.
FASTER = {
    "the older name": lambda: torch.set_float32_matmul_precision("high"),
    "a flag": lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", True),
    "CUDA's": lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
    "the CPU library's": lambda: setattr(torch.backends.mkldnn.matmul, "fp32_precision", "bf16"),
}


def settings() -> list[Any]:
    backends: Any = torch.backends
    parts = (backends, backends.cuda.matmul, backends.cudnn.conv, backends.mkldnn.matmul, backends.mkldnn.conv)
    return [
        *(part.fp32_precision for part in parts),
        *(backends.cudnn.benchmark, backends.cudnn.deterministic),
        *(torch.get_default_dtype(), torch.get_default_device(), torch.get_num_threads(), torch.is_grad_enabled()),
    ]


@pytest.fixture
def torch_again() -> Any:
    """The tests' own settings again, whatever a test has made of them."""
    from netproof.core.torch_state import _Settings

    found = _Settings.read()
    yield
    torch.set_default_device(None)
    torch.set_grad_enabled(True)
    torch.set_num_threads(found.threads)
    found.restore()


@pytest.mark.parametrize("kind", FASTER)
@pytest.mark.parametrize("newer_only", [False, True])
def test_faster_products_are_known_by_any_name(
    kind: str, newer_only: bool, torch_again: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the settings of a run, as a program may change them within one; also were the older name to say nothing."""
    use_strict_float32()
    assert float32_is_strict()
    FASTER[kind]()
    if newer_only:
        monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "highest")
    assert not float32_is_strict()


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("ending", ["an answer", "an error", "an error of the callback"])
def test_torch_is_left_as_it_was_found(kind: str, ending: str, torch_again: None) -> None:
    net = netproof.load_network(module(2, 3, 2), example_shape=(1, 2))
    label = 7 if ending == "an error" else 0
    SETTINGS[kind]()
    before = settings()
    inside: list[Any] = []

    def progress(step: Progress) -> None:
        inside.append(settings())
        if ending == "an error of the callback":
            raise KeyError(step.phase)

    def ask() -> None:
        region = netproof.linf_ball(np.zeros((1, 2)), 0.01)
        netproof.verify(net, region, label=label, device="cpu", method="lirpa", threads=1, progress=progress)

    if ending == "an answer":
        ask()
        netproof.bounds(net, ball(), device="cpu", threads=1)
    else:
        with pytest.raises((netproof.UsageError, KeyError)):
            ask()
    assert settings() == before
    strict = [precision for precision in inside[0][1:5] if precision not in ("ieee", "none")]
    assert not strict, "float32 must be float32 inside"
    assert inside[0][7:9] == [torch.float32, torch.device("cpu")]


def test_calls_in_several_threads_do_not_undo_each_other(torch_again: None) -> None:
    torch.set_float32_matmul_precision("medium")
    before = settings()
    both, first_is_back = threading.Barrier(2, timeout=60), threading.Event()
    seen: list[str] = []

    def ask(last: bool) -> None:
        def progress(step: Progress) -> None:
            if step.phase == "load":
                both.wait()
                if last:  # the other call is over, this one goes on
                    assert first_is_back.wait(60)
                    seen.append(torch.get_float32_matmul_precision())

        netproof.verify(module(2, 3, 2), ball(), label=0, device="cpu", threads=1, progress=progress)
        if not last:
            first_is_back.set()

    threads = [threading.Thread(target=ask, args=(last,)) for last in (False, True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == ["highest"]
    assert settings() == before


class NeedsTheDefault(torch.nn.Module):
    """Its matrix has the type of its input only where the caller's default type is that."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x + self.shift, torch.eye(2))


def test_a_module_runs_with_the_callers_default_type(torch_again: None) -> None:
    torch.set_default_dtype(torch.float64)
    network = netproof.load_network(NeedsTheDefault(), example_shape=(1, 2))
    assert network.weight_dtypes == ("float64",)


# --- arrays of which numpy hands out other numbers than their entries ---

HIDDEN = np.ma.array([[0.25, 0.75]], mask=[[False, True]])
WIDE = np.array([[0.25, 0.75]]).astype(np.longdouble)
IDENTITY = torch.nn.Linear(2, 2)
ODD = {
    "masked in places": [HIDDEN, [list(HIDDEN[0])], [HIDDEN[0]]],
    "is of float128": [WIDE, [[*WIDE[0]]], [WIDE[0]]] if WIDE.dtype.itemsize > 8 else [],
}
TAKEN: dict[str, Callable[[Any], Any]] = {
    "box, lower": lambda odd: netproof.box(odd, [[1, 1]]),
    "box, upper": lambda odd: netproof.box([[0, 0]], odd),
    "linf_ball": lambda odd: netproof.linf_ball(odd, 0.1),
    "l1_ball": lambda odd: netproof.l1_ball(odd, 0.1),
    "l2_ball": lambda odd: netproof.l2_ball(odd, 0.1),
    "clip": lambda odd: netproof.linf_ball([[0.5, 0.5]], 0.1, clip=(0, odd)),
    "linear_image, centre": lambda odd: netproof.linear_image(odd, [[[1, 1]]]),
    "linear_image, generators": lambda odd: netproof.linear_image([0, 0], odd),
    "C": lambda odd: output_constraint(ball(), odd, [0]),
    "certify": lambda odd: netproof.certify(IDENTITY, odd, [0], 0.1),
    "certify, clip": lambda odd: netproof.certify(IDENTITY, [[0.5, 0.5]], [0], 0.1, clip=(0, odd)),
    "certify, y": lambda odd: netproof.certify(IDENTITY, [[0.5, 0.5]] * 2, odd[0], 0.1),
    "largest_eps": lambda odd: netproof.largest_eps(IDENTITY, odd, 0),
    "a condition": lambda odd: netproof.variables(IDENTITY, ball())[1] @ odd[0],
}


@pytest.mark.parametrize(("said", "which"), [(said, k) for said, odd in ODD.items() for k in range(len(odd))])
@pytest.mark.parametrize("where", TAKEN)
def test_arrays_are_read_as_they_are_or_refused(where: str, said: str, which: int) -> None:
    with pytest.raises(netproof.UsageError, match=said) as caught:
        TAKEN[where](ODD[said][which])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("odd", [np.ma.masked, np.longdouble("0.1")])
def test_so_are_single_numbers(odd: Any) -> None:
    if np.asarray(odd).dtype.itemsize > 8 or odd is np.ma.masked:
        with pytest.raises(netproof.UsageError, match=r"eps is (masked|of float128)"):
            netproof.linf_ball([0.5], odd)


def test_a_masked_array_that_hides_nothing_is_an_array() -> None:
    plain = np.ma.array([[0.25, 0.75]], mask=False)
    assert netproof.linf_ball(plain, 0).box.lower == netproof.linf_ball(plain.data, 0).box.lower
