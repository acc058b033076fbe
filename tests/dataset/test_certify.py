"""`netproof.certify`: the verdicts are those of `verify`, image by image, and the accuracies follow from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import netproof
from netproof.core.machine.allowance import NO_CAPS, allowance, allowing
from netproof.dataset import attack, engine, together
from netproof.dataset.prediction import predicted_class
from netproof.dataset.result import Certification
from netproof.errors import OutOfMemory, UsageError
from netproof.search.loop import Search
from support.api import ask, module

WORDS = {"unsat": {"proved"}, "sat": {"broken", "misread"}, "timeout": {"open"}, "unknown": {"open"}}
BALLS = {"inf": netproof.linf_ball, "2": netproof.l2_ball, "1": netproof.l1_ball}


def certify(model: Any, X: Any, y: Any, eps: Any, **more: Any) -> Certification:
    return netproof.certify(model, X, y, eps, device="cpu", threads=1, **more)


def images(count: int, n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0, 1, (count, n)).astype(np.float32)


def read_by(net: torch.nn.Module, X: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        found: np.ndarray = net(torch.from_numpy(X)).argmax(1).numpy()
    return found


@pytest.mark.parametrize("norm", ["inf", "2", "1"])
@pytest.mark.parametrize(("seed", "eps"), [(0, 0.02), (1, 0.08)])
def test_verdicts_are_those_of_verify(seed: int, eps: float, norm: str) -> None:
    """Of a network with more inputs than are split, so that images are searched together."""
    net = module(14, 16, 12, 4, seed=seed)
    X = images(24, 14, seed)
    y = read_by(net, X)
    y[:3] = (y[:3] + 1) % 4  # misread
    found = certify(net, X, y, eps, norm=norm, clip=(0, 1))
    network = netproof.load_network(net, example_shape=X[0].shape)  # once: to export a module takes tenths of a second
    for image, x, label in zip(found, X, y, strict=True):
        alone = ask(network, BALLS[norm](x, eps, clip=(0, 1)), label=int(label))
        assert str(image.status) in WORDS[alone.status], (image, alone.status)
    assert found.counts["misread"] == 3
    assert found.clean == 21 / 24
    statuses = {str(image.status) for image in found}
    assert "proved" in statuses or norm != "inf"


def test_all_ways_to_decide_are_taken() -> None:
    """Roots, searches of several images and of one, and attacks all decide some image."""
    net = module(14, 24, 16, 3, seed=3)
    X = images(40, 14)
    found = certify(net, X, read_by(net, X), 0.1)
    assert {"root", "attack", "search"} <= {image.decided_by for image in found}
    assert found.open == 0


def test_what_is_left_is_searched_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An image that spends its budget is given up by the group, and its verdict is the same."""
    net = module(14, 24, 16, 3, seed=3)
    X = images(40, 14)
    y = read_by(net, X)
    expected = [image.status for image in certify(net, X, y, 0.1)]
    alone: list[int] = []
    search = engine.Certifier._alone

    def noted(self: engine.Certifier, case: Any) -> None:
        alone.append(case.item.index)
        search(self, case)

    monkeypatch.setattr(engine.Certifier, "_alone", noted)
    monkeypatch.setattr(together, "BUDGET", {"cpu": 0})
    assert [image.status for image in certify(net, X, y, 0.1)] == expected
    assert alone


def statuses(found: Certification) -> list[str]:
    return [str(image.status) for image in found]


def test_a_full_device_takes_fewer_images_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack halves what it takes, and what cannot be searched together is searched alone; no verdict changes."""
    net = module(14, 24, 16, 3, seed=3)
    X = images(12, 14)
    y = read_by(net, X)
    expected, sizes = statuses(certify(net, X, y, 0.1)), []
    begin = attack._Attack.__init__

    def full(self: attack._Attack, graph: Any, cases: Any, *rest: Any) -> None:
        sizes.append(len(cases))
        if len(cases) > 3:
            raise torch.OutOfMemoryError("a full device")
        begin(self, graph, cases, *rest)

    def no_room(self: together.SearchEach) -> None:
        raise OutOfMemory

    monkeypatch.setattr(attack._Attack, "__init__", full)
    monkeypatch.setattr(together.SearchEach, "run", no_room)
    assert statuses(certify(net, X, y, 0.1)) == expected
    assert sizes[:4] == [12, 6, 3, 3]
    assert {"proved", "broken"} <= set(expected)


def test_an_image_that_has_no_room_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is proved of it, and the others have their answers."""
    net = module(14, 24, 16, 3, seed=3)
    X = images(12, 14)
    y = read_by(net, X)
    before = statuses(certify(net, X, y, 0.1))

    def no_room(*_: Any, **__: Any) -> None:
        raise OutOfMemory("out of memory, with as little at once as there can be")

    monkeypatch.setattr(together, "BUDGET", {"cpu": 0})
    monkeypatch.setattr(Search, "run", no_room)
    found = certify(net, X, y, 0.1)
    opened = [image for image in found if str(image.status) == "open"]
    assert opened
    assert all(image.reason.startswith("out of memory") for image in opened)
    assert all(now in (was, "open") for now, was in zip(statuses(found), before, strict=True))


def test_a_group_that_is_given_up_proves_nothing() -> None:
    """Its sub-domains were dropped as if they were proved: none of that may reach the evidence."""
    net = module(14, 24, 16, 3, seed=3)
    X = images(40, 14)
    y = read_by(net, X)
    for eps in (0.1, 0.3):
        for image, x, label in zip(certify(net, X, y, eps, timeout=5), X, y, strict=True):
            if image.status == "proved":
                points = x + eps * np.sign(np.random.default_rng(0).normal(size=(500, 14))).astype(np.float32)
                assert (read_by(net, points.astype(np.float32)) == label).all()


@pytest.mark.parametrize("chunk", [1, 7])
def test_chunks_change_no_verdict(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    net, X = module(14, 16, 4), images(20, 14)
    y = read_by(net, X)
    expected = [image.status for image in certify(net, X, y, 0.05)]
    monkeypatch.setattr(engine, "CHUNK", {"cpu": chunk})
    assert [image.status for image in certify(net, X, y, 0.05)] == expected


def test_images_keep_their_order_and_places() -> None:
    net, X = module(14, 16, 4), images(20, 14)
    y = read_by(net, X)
    found = certify(net, X, y, 0.05)
    assert [image.index for image in found] == list(range(20))
    assert [image.label for image in found] == y.tolist()


def test_witnesses_break_their_own_image() -> None:
    net, X = module(14, 16, 4), images(30, 14)
    y = read_by(net, X)
    found = certify(net, X, y, 0.3, clip=(0, 1))
    broken = [image for image in found if image.status == "broken"]
    assert broken
    for image in broken:
        assert image.witness is not None
        x = image.witness.input.reshape(-1)
        assert np.abs(x.astype(np.float64) - X[image.index]).max() <= 0.3
        assert (x >= 0).all()
        assert (x <= 1).all()
        assert int(image.witness.output.argmax()) == image.read_as
        assert image.witness.output.reshape(-1)[image.label] <= image.witness.output.max()


def test_margins_are_below_what_points_show() -> None:
    net, X = module(14, 16, 4), images(20, 14)
    y = read_by(net, X)
    for image in certify(net, X, y, 0.02):
        if image.margin is None:
            continue
        near = X[image.index] + 0.02 * (2 * images(50, 14, 7) - 1)
        with torch.no_grad():
            out = net(torch.from_numpy(near.astype(np.float32))).numpy()
        others = np.delete(out, image.label, axis=1).max(1)
        assert image.margin <= (out[:, image.label] - others).min() + 1e-4


def test_a_tie_is_no_proof() -> None:
    """Both outputs are equal everywhere: the first is the prediction, and no neighbourhood of it is proved."""
    net = torch.nn.Linear(12, 2)
    with torch.no_grad():
        net.weight[1] = net.weight[0]
        net.bias[1] = net.bias[0]
    found = certify(net, images(3, 12), [0, 0, 1], "1/100")
    assert [str(image.status) for image in found] == ["broken", "broken", "misread"]
    assert (found.clean, found.attacked, found.certified) == (2 / 3, 0.0, 0.0)


def saturated() -> torch.nn.Module:
    """Sigmoids of logits that lie by 19 and more apart, all of them 1 in float32."""
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Sigmoid())
    with torch.no_grad():
        net[0].weight[:] = torch.diag(torch.tensor([1.0, 1.0, 20.0]))
        net[0].bias[:] = torch.tensor([20.0, 21.0, 20.0])
    return net


def test_outputs_that_rounding_alone_makes_equal_are_read_as_verify_proves_them() -> None:
    net, x = saturated(), np.float32([[1.0, 1.0, 1.0]])
    assert net(torch.from_numpy(x)).unique().tolist() == [1.0]
    for label, status, predicted in ((2, "proved", 2), (0, "misread", 2), (1, "misread", 2)):
        (image,) = certify(net, x, [label], "1/100")
        assert (str(image.status), image.predicted) == (status, predicted)
        verdict = ask(net, netproof.linf_ball(x, "1/100"), label=label)
        assert str(image.status) in WORDS[verdict.status]
    radius = netproof.largest_eps(net, x, timeout=5, device="cpu")
    assert (radius.predicted, radius.label) == (2, 2)


def test_which_of_many_equal_outputs_is_largest_is_asked_of_all() -> None:
    """Neither the first nor the next of five; where two lead in real arithmetic too, it is the first of all."""
    logits = torch.tensor([30.0, 31.0, 29.0, 45.0, 40.0])
    net = torch.nn.Sequential(torch.nn.Linear(2, 5), torch.nn.Sigmoid())
    with torch.no_grad():
        net[0].weight.zero_()
        net[0].bias[:] = logits
    network = netproof.load_network(net, example_shape=(1, 2))
    assert predicted_class(network, np.zeros((1, 2), np.float32)) == 3
    with torch.no_grad():
        net[0].bias[4] = 45.0
    assert predicted_class(netproof.load_network(net, example_shape=(1, 2)), np.zeros((1, 2), np.float32)) == 0


def test_a_radius_of_zero_is_the_clean_accuracy() -> None:
    net, X = module(14, 16, 4), images(20, 14)
    y = read_by(net, X)
    y[0] = (y[0] + 1) % 4
    found = certify(net, X, y, 0)
    assert found.bracket == (19 / 20, 19 / 20)
    assert found.clean == 19 / 20


def test_few_inputs_are_split() -> None:
    net, X = module(3, 24, 16, 3, seed=5), images(12, 3)
    y = read_by(net, X)
    for image, x, label in zip(certify(net, X, y, 0.1), X, y, strict=True):
        assert str(image.status) in WORDS[ask(net, netproof.linf_ball(x, 0.1), label=int(label)).status]


def test_a_softmax_at_the_end_changes_nothing() -> None:
    net, X = module(14, 16, 4), images(12, 14)
    y = read_by(net, X)
    plain = [image.status for image in certify(net, X, y, 0.05)]
    last = torch.nn.Sequential(net, torch.nn.Softmax(1))
    assert [image.status for image in certify(last, X, y, 0.05)] == plain


def smooth() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(14, 10), torch.nn.Sigmoid(), torch.nn.Linear(10, 3))


def pooled() -> torch.nn.Module:
    torch.manual_seed(0)
    head = (torch.nn.Unflatten(1, (1, 2, 7)), torch.nn.Conv2d(1, 3, 2), torch.nn.ReLU(), torch.nn.MaxPool2d((1, 2)))
    return torch.nn.Sequential(*head, torch.nn.Flatten(), torch.nn.Linear(9, 3))


@pytest.mark.parametrize(
    "make", [smooth, pooled, lambda: module(14, 12, 3).double()], ids=["smooth", "pooled", "double"]
)
@pytest.mark.parametrize("eps", [0.03, 0.15])
def test_other_networks_give_what_verify_gives(make: Callable[[], torch.nn.Module], eps: float) -> None:
    net, X = make(), images(12, 14)
    X = X.astype(np.float64) if next(net.parameters()).dtype == torch.float64 else X
    y = read_by(net, X)
    network = netproof.load_network(net, example_shape=X[0].shape)
    for image, x, label in zip(certify(net, X, y, eps, timeout=10), X, y, strict=True):
        alone = ask(network, netproof.linf_ball(x, eps), label=int(label), timeout=10)
        assert str(image.status) in WORDS[alone.status], (image, alone.status)


@pytest.mark.parametrize("method", ["beta", "lirpa"])
def test_other_methods_go_one_by_one(method: str) -> None:
    net, X = module(14, 16, 4), images(6, 14)
    y = read_by(net, X)
    expected = [image.status for image in certify(net, X, y, 0.05)]
    assert [image.status for image in certify(net, X, y, 0.05, method=method, timeout=20)] == expected


def test_no_time_leaves_images_open() -> None:
    net, X = module(14, 64, 64, 4, seed=2), images(6, 14)
    y = read_by(net, X)
    found = certify(net, X, y, 0.2, timeout=0)
    assert found.counts["misread"] == 0
    assert found.open > 0
    assert all(image.reason for image in found if image.status == "open")
    low, high = found.bracket
    assert low < high == found.attacked


def test_progress_counts_up() -> None:
    net, X = module(14, 16, 4), images(10, 14)
    told: list[netproof.CertifyProgress] = []
    certify(net, X, read_by(net, X), 0.05, progress=told.append)
    assert told[0].phase == "read"
    assert [one.done for one in told] == sorted(one.done for one in told)
    assert {one.images for one in told} == {10}


def test_an_exception_of_the_callback_gets_through() -> None:
    def stop(progress: netproof.CertifyProgress) -> None:
        raise KeyboardInterrupt

    net, X = module(14, 16, 4), images(3, 14)
    with pytest.raises(KeyboardInterrupt):
        certify(net, X, read_by(net, X), 0.05, progress=stop)


def test_it_is_said_shortly_and_as_plain_values() -> None:
    net, X = module(14, 16, 4), images(10, 14)
    found = certify(net, X, read_by(net, X), "2/255")
    assert repr(found).startswith("Certification(10 images, eps 2/255, norm inf: clean 100.0 %, attacked")
    assert found.line().startswith("clean 1.0000 attacked ")
    assert repr(found.images[0]).startswith(f"ImageResult(0: label {found.images[0].label}, ")
    plain = found.to_dict()
    assert plain["counts"] == found.counts
    assert plain["results"][3]["index"] == 3
    assert all(type(value) in (int, float, str, type(None)) for value in plain["results"][0].values())


NET = module(4, 3)
GOOD = np.zeros((2, 4), dtype=np.float32)
BAD: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "one image alone": ((np.zeros(4), [0], 0.1), {}, "X has shape"),
    "no images": ((np.zeros((0, 4)), [], 0.1), {}, "y does not hold|X has no images"),
    "too few labels": ((GOOD, [0], 0.1), {}, "X has 2 images"),
    "another shape": ((np.zeros((2, 5)), [0, 1], 0.1), {}, "shape|inputs"),
    "a label beyond the outputs": ((GOOD, [0, 3], 0.1), {}, "image 1 has the label 3"),
    "a negative label": ((GOOD, [-1, 0], 0.1), {}, "image 0 has the label -1"),
    "half a label": ((GOOD, [0, 0.5], 0.1), {}, "whole numbers"),
    "text": (([["a"] * 4] * 2, [0, 1], 0.1), {}, "not real numbers"),
    "not a number": ((np.full((2, 4), np.nan), [0, 1], 0.1), {}, "NaN"),
    "ragged": (([[1.0, 2.0], [1.0]], [0, 1], 0.1), {}, "ragged"),
    "a negative radius": ((GOOD, [0, 1], -1), {}, "eps"),
    "a radius per pixel": ((GOOD, [0, 1], [0.1, 0.2]), {}, "eps"),
    "another norm": ((GOOD, [0, 1], 0.1), {"norm": "3"}, "norm"),
    "outside of the range": ((GOOD - 1, [0, 1], 0.1), {"clip": (0, 1)}, "image 0 has values"),
    "a range upside down": ((GOOD, [0, 1], 0.1), {"clip": (1, 0)}, "clip's lower bound is above its upper one"),
    "a range of another shape": ((GOOD, [0, 1], 0.1), {"clip": ([0, 0], 1)}, "clip has shape"),
    "no numbers": ((torch.zeros(2, 4, device="meta"), [0, 1], 0.1), {}, "X is no plain tensor"),
    "half a range": ((GOOD, [0, 1], 0.1), {"clip": 1}, "clip"),
    "a timeout of words": ((GOOD, [0, 1], 0.1), {"timeout": "soon"}, "timeout"),
    "another method": ((GOOD, [0, 1], 0.1), {"method": "magic"}, "magic"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input_gets_one_line(kind: str) -> None:
    given, more, words = BAD[kind]
    with pytest.raises(UsageError, match=words) as raised:
        certify(NET, *given, **more)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("norm", [math.inf, 2, 1, "2"])
def test_norms_may_be_numbers(norm: Any) -> None:
    found = certify(NET, GOOD, [0, 1], 0.1, norm=norm)
    assert found.norm in ("inf", "2", "1")


def test_what_is_cut_short_is_not_given_as_open() -> None:
    """A stop that comes while an image is searched leaves it unanswered, for another run to answer."""
    from netproof.api import Run
    from netproof.core.deadline import Deadline
    from netproof.core.torch_state import engine_state
    from netproof.dataset.engine import Certifier, Limits
    from netproof.dataset.images import read_images

    net, X = module(14, 24, 16, 3, seed=3), images(40, 14)
    network = netproof.load_network(net, example_shape=(14,))
    whole = Deadline(None)

    def part(seconds: float | None) -> Deadline:
        made = Deadline(seconds)
        if whole.cancelled:
            made.cancel()
        return made

    def stop(told: netproof.CertifyProgress) -> None:
        if told.phase == "search":
            whole.cancel()

    with engine_state():
        run = Run("auto", None, "cpu", 1, 0, Deadline(None), None)
        limits = Limits(60.0, part, stop)
        items = read_images(X, read_by(net, X), 0.1)
        found = list(Certifier(run, network, limits, loaded=True).run(items))
    assert 0 < len(found) < 40
    assert all(image.status != "open" for image in found)


def test_what_one_call_was_too_small_for_is_not_kept_from_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Halvings end with the call, and with the image; memory that is gone for good is said plainly."""
    net, X = module(14, 16, 12, 4, seed=1), images(8, 14)
    y = read_by(net, X)
    seen, run = list[float](), Search.run

    def short(self: Search, *args: Any) -> Any:
        seen.append(allowance().share)
        allowance().halve()
        return run(self, *args)

    monkeypatch.setattr(Search, "run", short)
    with allowing(NO_CAPS) as mine:
        certify(net, X, y, 0.1, method="beta")
        assert mine.share == 1.0
    assert len(seen) > 1
    assert set(seen) == {1.0}

    def full(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(engine, "attack_all", full)
    with pytest.raises(OutOfMemory, match="out of memory"):
        certify(net, X, y, 0.1)
