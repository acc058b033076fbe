"""From a method's name and options to a configured search, and from a device's name to a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from netproof.bounds.bdd import Bdd
from netproof.bounds.beta import Beta
from netproof.bounds.lirpa import Lirpa
from netproof.branching.babsr import Babsr
from netproof.branching.filtered import Filtered
from netproof.branching.gnn import Gnn
from netproof.errors import DeviceError, UsageError
from netproof.search.loop import Method

BATCH = {"cpu": 32, "cuda": 400}
BETA_BATCH = {"cpu": 64, "cuda": 4096}
BETA_MOST = {"cpu": 64, "cuda": 16384}
BETA_FILL = {"cpu": 8, "cuda": 256}  # a GPU bounds hundreds in the time of one
BDD_BATCH = {"cpu": 32, "cuda": 400}
BDD_FILL = {"cpu": 4, "cuda": 128}


def build_method(name: str, options: Mapping[str, int | float | bool | None], device: torch.device) -> Method:
    """A method's parts, with its fields."""
    if name == "bdd":
        return _bdd(dict(options), device)
    if name in ("gnn", "gnn-online"):
        rule = Gnn(weak=float(options["weak"] or 0.0), online=name == "gnn-online")
        return replace(_lirpa(dict(options), device), brancher=rule)
    return (_beta if name in ("auto", "beta", "input-split") else _lirpa)(dict(options), device)


def _beta(o: dict[str, int | float | bool | None], device: torch.device) -> Method:
    batch = o["batch"] if o["batch"] is not None else BETA_BATCH[device.type]
    bounder = Beta(
        root_steps=int(o["root_steps"] or 0),
        neuron_steps=int(o["neuron_steps"] or 0),
        steps=int(o["steps"] or 0),
        rate=float(o["rate"] or 0.0),
        child_rate=float(o["child_rate"] or 0.0),
        renew=int(o["renew"] or 0),
    )
    brancher = Filtered(int(o["probes"] or 0))
    return Method(
        bounder,
        brancher,
        batch=int(batch or 1),
        lp_threshold=None,
        leaf_lp=bool(o["leaf_lp"]),
        most=BETA_MOST[device.type] if o["batch"] is None else None,
        fill=min(BETA_FILL[device.type], int(batch or 1)),
    )


def _lirpa(o: dict[str, int | float | bool | None], device: torch.device) -> Method:
    """Algorithm 1 of the paper."""
    batch = o["batch"] if o["batch"] is not None else BATCH[device.type]
    bounder = Lirpa(
        root_steps=int(o["root_steps"] or 0),
        neuron_steps=int(o["neuron_steps"] or 0),
        steps=int(o["steps"] or 0),
        refresh=int(o["refresh"] or 0),
        rate=float(o["rate"] or 0.0),
        child_rate=float(o["child_rate"] or 0.0),
    )
    return Method(
        bounder,
        Babsr(),
        batch=int(batch or 1),
        lp_threshold=int(o["lp_threshold"] or 1),
        patience=int(o["patience"] or 0),
        leaf_lp=bool(o["leaf_lp"]),
    )


def _bdd(o: dict[str, int | float | bool | None], device: torch.device) -> Method:
    """Lagrangian decomposition: no LP but at the leaves."""
    batch = int(o["batch"] if o["batch"] is not None else BDD_BATCH[device.type])
    bounder = Bdd(
        root_steps=int(o["root_steps"] or 0),
        neuron_steps=int(o["neuron_steps"] or 0),
        steps=int(o["steps"] or 0),
        refresh=int(o["refresh"] or 0),
        rate=float(o["rate"] or 0.0),
        child_rate=float(o["child_rate"] or 0.0),
        proximal=bool(o["proximal"]),
    )
    fill = min(BDD_FILL[device.type], batch)
    return Method(bounder, Babsr(), batch=batch, lp_threshold=None, leaf_lp=bool(o["leaf_lp"]), fill=fill)


def resolve_device(name: str) -> torch.device:
    """ "auto" is the GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise UsageError(f"no device {name!r}", remedy="one of: auto, cpu, cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise DeviceError("no CUDA device is available", remedy="use --device cpu, or run `netproof doctor`")
    return torch.device(name)
