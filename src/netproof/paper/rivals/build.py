"""Configured searches of the paper's rivals, from their options."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from netproof.branching.babsr import Babsr, BabsrOriginal
from netproof.core.extras import Extras
from netproof.methods import build
from netproof.methods.registry import Options
from netproof.paper.rivals.babsr_lp import BabsrLP
from netproof.paper.rivals.bdd import Bdd
from netproof.paper.rivals.gnn.fail_safe import GnnFailSafe
from netproof.paper.rivals.gnn.fail_safe_published import PublishedFailSafe
from netproof.paper.rivals.gnn.rule import Gnn
from netproof.paper.rivals.gnn.trials import TryingLP
from netproof.paper.rivals.mip import Formulation, MipSearch
from netproof.search.method import Method

BDD_FILL = {"cpu": 4, "cuda": 128}


def bdd(options: Options, device: torch.device) -> Method:
    """Build Lagrangian decomposition: no LP but at the leaves."""
    given, original = options["batch"], bool(options["original"])
    batch = int(build.BATCH[device.type] if given is None else given)
    return Method(
        build.with_fields(Bdd, options),
        BabsrOriginal() if original else Babsr(),
        batch,
        lp_threshold=None,
        leaf_lp=bool(options["leaf_lp"]),
        fill=1 if original else min(BDD_FILL[device.type], batch),
        extras=build.with_fields(Extras, options),
        needs_lp_form=True,
    )


def babsr_lp(options: Options, device: torch.device) -> Method:
    """Build the search by LPs: every bound is one already, so it declares no turns of the LP."""
    bounder, extras = build.with_fields(BabsrLP, options), build.with_fields(Extras, options)
    return Method(bounder, BabsrOriginal(parallel=True), 1, lp_threshold=None, extras=extras, needs_lp_form=True)


def gnn(options: Options, device: torch.device) -> Method:
    """Build the search by LPs with branching by the graph network."""
    return _gnn(options, device, online=False)


def gnn_online(options: Options, device: torch.device) -> Method:
    """Build the same, going on learning."""
    return _gnn(options, device, online=True)


def _gnn(options: Options, device: torch.device, *, online: bool) -> Method:
    bounder, weights = build.with_fields(TryingLP, options), options["weights"]
    weak = float(options["weak"] or 0.0)
    if weights is None:
        brancher = GnnFailSafe(weak=weak, online=online, bounder=bounder)
    else:
        bounder = replace(bounder, keeps_optima=True)
        brancher = PublishedFailSafe(Path(str(weights)), weak, online, bounder=bounder)
    return replace(babsr_lp(options, device), bounder=bounder, brancher=brancher)


def lirpa_gnn(options: Options, device: torch.device) -> Method:
    """Build `lirpa-tight` with branching by the graph network."""
    return replace(build.lirpa(options, device), brancher=Gnn(weak=float(options["weak"] or 0.0)))


def lirpa_gnn_online(options: Options, device: torch.device) -> Method:
    """Build the same, going on learning."""
    return replace(build.lirpa(options, device), brancher=Gnn(weak=float(options["weak"] or 0.0), online=True))


def mip(options: Options, device: torch.device) -> Method:
    """Build the solver's search; the rest is what proves its claims."""
    search = partial(MipSearch, how=build.with_fields(Formulation, options))
    return replace(build.beta(options, device), search=search, needs_lp_form=True)
