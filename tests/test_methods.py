"""Names and fields of methods, and the searches they become."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch

from netproof.bounds.lirpa import TIGHT, Lirpa
from netproof.branching.babsr import Babsr, BabsrOriginal
from netproof.core.extras import CANDIDATES, Extras
from netproof.errors import DeviceError, UsageError
from netproof.methods.build import BATCH, build_method
from netproof.methods.declared import BOX_BATCHES
from netproof.methods.device import resolve_device
from netproof.methods.options import Field
from netproof.methods.plan import FEW_INPUTS, SOME_INPUTS
from netproof.methods.registry import METHODS, method_info
from netproof.paper.rivals.bdd import Bdd
from netproof.paper.rivals.gnn.fail_safe import GnnFailSafe
from netproof.paper.rivals.gnn.fail_safe_published import PublishedFailSafe
from netproof.paper.rivals.gnn.trials import TryingLP
from netproof.search.restart import RestartWithLP
from support.plain_gnn import random_tensors, save_published

CPU = torch.device("cpu")


def built(name: str, **given: str) -> tuple[Lirpa, object]:
    method = build_method(name, method_info(name).options(given), CPU)
    assert isinstance(method.bounder, Lirpa)
    return method.bounder, method


@pytest.mark.parametrize("name", METHODS)
def test_every_method_can_be_built_with_its_defaults(name: str) -> None:
    options = method_info(name).options()
    assert set(options) == {field.name for field in METHODS[name].fields}
    assert build_method(name, options, CPU).batch >= 1


@pytest.mark.parametrize("name", METHODS)
def test_defaults_lie_in_their_own_ranges(name: str) -> None:
    for field in METHODS[name].fields:
        assert field.parse(field.default) == field.parse(str(field.default)) == field.default
        assert field.help


def test_the_papers_numbers_are_the_defaults() -> None:
    bounder, method = built("lirpa-printed")
    assert (bounder.root_steps, bounder.steps, bounder.rate, bounder.gain) == (100, 10, 0.1, 0.0)
    assert (bounder.free_splits, bounder.layer_slopes, bounder.joint, method.strict) == (False, False, True, False)
    assert not bounder.fresh
    assert method.lp_threshold == 12_000
    assert method.leaf_lp
    assert method.search is None


def test_lirpa_is_what_the_authors_released() -> None:
    bounder, method = built("lirpa")
    assert (bounder.root_steps, bounder.steps, bounder.rate, bounder.child_rate) == (100, 20, 0.5, 0.1)
    assert (bounder.free_splits, bounder.layer_slopes, bounder.joint, bounder.gain) == (True, True, False, None)
    assert bounder.fresh
    assert method.strict
    assert (method.search, method.lp_threshold) == (RestartWithLP, 12_000)


def test_the_variants_differ_as_their_names_say() -> None:
    assert built("lirpa-single")[1].batch == 1
    fixed, _ = built("lirpa-fixed")
    assert (fixed.root_steps, fixed.steps) == (0, 0)
    lirpa, grown = built("lirpa")[1], built("lirpa-grown")[1]
    assert (lirpa.batch, lirpa.fill) == (BATCH["cpu"], 1)
    assert (grown.batch, grown.fill) == (BATCH["cpu"], BATCH["cpu"])


def test_what_netproof_found_better_is_the_same_in_a_search_and_for_ranges() -> None:
    assert built("lirpa-tight")[0] == TIGHT


def test_what_netproof_found_better_is_off_in_algorithm_1() -> None:
    bounder, method = built("lirpa")
    assert (bounder.rebound, bounder.ranked, bounder.own_slopes) == (None, False, False)
    assert bounder.parallel
    assert isinstance(method.brancher, BabsrOriginal)
    assert method.extras == Extras(lp_batch=None)
    assert not METHODS["lirpa"].attacks


def test_every_field_reaches_the_search() -> None:
    given = {
        "batch": "7",
        "lp_threshold": "5",
        "root_steps": "3",
        "neuron_steps": "4",
        "steps": "2",
        "rebound": "9",
        "rate": "0.5",
        "child_rate": "0.75",
        "patience": "6",
        "leaf_lp": "no",
        "lp_turns": "yes",
        "lp_batch": "11",
        "attack_after": "8",
        "grow": "yes",
        "parallel": "no",
        "own_slopes": "yes",
        "ranked": "yes",
        "root_gain": "0.25",
        "gain": "0.125",
        "gains_only": "yes",
        "free_splits": "yes",
        "layer_slopes": "yes",
        "fresh": "yes",
        "joint": "no",
        "strict": "yes",
        "lp_restart": "no",
    }
    assert set(given) == {field.name for field in METHODS["lirpa"].fields}
    bounder, method = built("lirpa-printed", **given)
    chosen = {"ranked": True, "own_slopes": True, "parallel": False, "root_gain": 0.25, "gain": 0.125}
    chosen |= {"free_splits": True, "layer_slopes": True, "fresh": True, "joint": False}
    assert bounder == Lirpa(3, 4, 2, 9, rate=0.5, child_rate=0.75, **chosen)
    assert (method.batch, method.fill, method.lp_threshold, method.patience, method.leaf_lp) == (7, 7, 5, 6, False)
    assert method.strict
    assert method.search is None
    assert built("lirpa-printed", **{**given, "lp_restart": "yes"})[1].search is RestartWithLP
    assert isinstance(method.brancher, Babsr)
    assert method.extras == Extras(lp_turns=True, lp_batch=11, attack_after=8)


def test_every_field_of_bdd_reaches_the_search() -> None:
    given = {
        "batch": "7",
        "root_steps": "3",
        "neuron_steps": "4",
        "steps": "2",
        "rebound": "yes",
        "parallel": "yes",
        "rate": "0.5",
        "child_rate": "0.75",
        "proximal": "yes",
        "original": "yes",
        "leaf_lp": "no",
        "lp_turns": "no",
        "attack_after": "8",
    }
    assert set(given) == {field.name for field in METHODS["bdd"].fields}
    method = build_method("bdd", method_info("bdd").options(given), CPU)
    assert method.bounder == Bdd(
        root_steps=3,
        neuron_steps=4,
        steps=2,
        rebound=True,
        parallel=True,
        rate=0.5,
        child_rate=0.75,
        proximal=True,
    )
    assert (method.batch, method.lp_threshold, method.leaf_lp) == (7, None, False)
    assert (method.brancher, method.fill) == (BabsrOriginal(), 1)
    assert method.extras == Extras(lp_turns=False, attack_after=8)
    plain = build_method("bdd", method_info("bdd").options(), CPU)
    assert (plain.bounder, plain.brancher, plain.fill) == (Bdd(), Babsr(), 4)


@pytest.mark.parametrize(("name", "online"), [("gnn", False), ("gnn-online", True)])
def test_every_field_of_gnn_reaches_the_search(name: str, online: bool) -> None:
    given = {"rebound": "no", "parallel": "no", "attack_after": "8", "weak": "0.5"}
    assert {*given, "weights"} == {field.name for field in METHODS[name].fields}
    method = build_method(name, method_info(name).options(given), CPU)
    assert type(method.brancher) is GnnFailSafe
    assert method.bounder is method.brancher.bounder  # what was tried is known when it comes to be bounded
    assert method.bounder == TryingLP(rebound=False, parallel=False)
    assert (method.brancher.weak, method.brancher.online) == (0.5, online)
    assert (method.batch, method.lp_threshold, method.needs_lp_form) == (1, None, True)
    assert method.extras == Extras(attack_after=8)


@pytest.mark.parametrize(("name", "online"), [("gnn", False), ("gnn-online", True)])
def test_published_weights_reach_the_search(name: str, online: bool, tmp_path: Path) -> None:
    path = save_published(random_tensors(0), tmp_path / "weights.npz")
    for given in (path, str(path)):
        options = method_info(name).options({"weights": given, "weak": "0.5"})
        assert options["weights"] == str(path)
        method = build_method(name, options, CPU)
        assert isinstance(method.brancher, PublishedFailSafe)
        assert method.bounder is method.brancher.bounder
        assert method.bounder == TryingLP(keeps_optima=True)
        assert (method.brancher.weak, method.brancher.online) == (0.5, online)


@pytest.mark.parametrize("given", ["", 3, True])
def test_what_names_no_file_is_refused(given: Any) -> None:
    with pytest.raises(UsageError, match=r"weights=.*: not the name of a file"):
        method_info("gnn").options({"weights": given})


def test_every_extra_of_beta_reaches_the_search() -> None:
    given = {
        "probes": "3",
        "tighter_roots": "2",
        "rebound_after": "9",
        "rebound_gain": "0.5",
        "envelope": "no",
        "lp_turns": "no",
        "attack_after": "0",
    }
    assert set(given) == {field.name for field in fields(Extras)} - {"lp_batch"}  # which speaks of η
    method = build_method("beta", method_info("beta").options(given), CPU)
    assert method.extras == Extras(3, 2, 9, 0.5, lp_turns=False, attack_after=0)


def test_what_a_method_does_not_declare_it_does_not_do() -> None:
    def asked(name: str) -> set[str]:
        extras = build_method(name, method_info(name).options(), CPU).extras
        return {field.name for field in fields(Extras) if getattr(extras, field.name) != field.default}

    every = {field.name for field in fields(Extras)} - {"lp_batch"}
    assert asked("auto") == asked("beta") == every
    assert asked("input-split") == asked("mip") == every - {"attack_after", "envelope"}
    for name in ("lirpa", "lirpa-printed", "lirpa-grown", "lirpa-single", "lirpa-fixed"):
        assert asked(name) == {"lp_batch"}
    for name in ("lirpa-tight", "lirpa-gnn", "lirpa-gnn-online"):
        assert asked(name) == {"lp_turns"}
    assert asked("bdd") == {"lp_turns", "attack_after"}
    for name in ("babsr-lp", "gnn", "gnn-online"):
        assert asked(name) == {"attack_after"}  # their every bound is an LP


def test_as_many_neurons_are_tried_as_are_remembered_at_most() -> None:
    assert method_info("beta").options({"probes": CANDIDATES})["probes"] == CANDIDATES
    with pytest.raises(UsageError, match="outside"):
        method_info("beta").options({"probes": CANDIDATES + 1})


def test_the_help_says_where_boxes_are_tried_first() -> None:
    assert f"more than {FEW_INPUTS} and up to {SOME_INPUTS} inputs" in BOX_BATCHES.help


def test_zero_is_a_value_and_not_a_missing_one() -> None:
    bounder, _ = built("lirpa", steps="0", rebound="0", root_steps="0", rate="0")
    assert (bounder.steps, bounder.rebound, bounder.root_steps, bounder.rate) == (0, 0, 0, 0.0)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("batch", "many", "not an int"),
        ("batch", "1.5", "not an int"),
        ("batch", "0", r"outside \[1, "),
        ("rate", "fast", "not a float"),
        ("rate", "nan", "outside"),
        ("rate", "-1", "outside"),
        ("rate", "1e300", "outside"),
        ("rate", 10**400, "outside"),
        ("lp_threshold", "0" * 9, "outside"),
        ("steps", "10001", r"outside \[0, 10000\]"),
        ("steps", "none", "not an int"),
        ("leaf_lp", "maybe", "not a bool"),
        ("colour", "red", "no such field"),
    ],
)
def test_bad_options_are_refused_by_name(name: str, text: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words) as error:
        method_info("lirpa").options({name: text})
    assert name in str(error.value)


def test_a_whole_number_may_have_any_size_where_nothing_limits_it() -> None:
    assert Field("x", int, 1, "help", 0).parse("1" + "0" * 400) == 10**400


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("YES", True), ("1", True), ("false", False), ("0", False)]
)
def test_words_for_yes_and_no(text: str, value: bool) -> None:
    assert Field("x", bool, True, "help").parse(text) is value


@pytest.mark.parametrize("given", ["none", "None", "NONE", None])
def test_none_lets_netproof_choose_where_it_does_by_default(given: str | None) -> None:
    assert Field("x", int, None, "help", 1).parse(given) is None
    with pytest.raises(UsageError, match="not an int"):
        Field("x", int, 1, "help").parse(given)
    assert Field("x", int, 1, "help", optional=True).parse(given) is None


@pytest.mark.parametrize("name", ["gain", "root_gain", "rebound", "lp_batch"])
@pytest.mark.parametrize("method", ["lirpa", "lirpa-tight"])
def test_what_may_be_none_may_be_so_in_every_form_of_algorithm_1(method: str, name: str) -> None:
    assert method_info(method).options({name: "none"})[name] is None


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no method 'magic'") as error:
        method_info("magic")
    assert "lirpa" in str(error.value.remedy)
    with pytest.raises(UsageError, match="no device 'tpu'"):
        resolve_device("tpu")
    assert resolve_device("cpu") == CPU


def test_a_missing_gpu_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto") == CPU
    with pytest.raises(DeviceError, match="no CUDA device"):
        resolve_device("cuda")
