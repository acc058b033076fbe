"""From a method's name and options to a configured search, and from a device's name to a device."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, replace

import torch

from netproof.bounds.babsr_lp import BabsrLP
from netproof.bounds.bdd import Bdd
from netproof.bounds.beta import Beta
from netproof.bounds.bounder import Bounder
from netproof.bounds.lirpa import Lirpa
from netproof.branching.babsr import Babsr, BabsrOriginal
from netproof.branching.filtered import Filtered
from netproof.branching.gnn import Gnn
from netproof.errors import DeviceError, UsageError
from netproof.search.loop import Method, Search
from netproof.search.mip import MipSearch

BATCH = {"cpu": 32, "cuda": 400}
BETA_BATCH = {"cpu": 64, "cuda": 4096}
BETA_MOST = {"cpu": 64, "cuda": 16384}
BETA_FILL = {"cpu": 8, "cuda": 256}  # a GPU bounds hundreds in the time of one
BDD_FILL = {"cpu": 4, "cuda": 128}


Options = Mapping[str, int | float | bool | None]


def build_method(name: str, options: Options, device: torch.device) -> Method:
    """A method's parts, with its fields."""
    return BUILDERS[name](options, device)


def search_of(name: str) -> type[Search] | type[MipSearch]:
    """What searches one problem by that method."""
    return MipSearch if name == "mip" else Search


def _with_fields(kind: type[Bounder], o: Options) -> Bounder:
    """The bounder's fields are the method's options of the same names."""
    own = {field.name for field in fields(kind) if field.init}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in o.items() if name in own})


def _beta(o: Options, device: torch.device) -> Method:
    batch = o["batch"] if o["batch"] is not None else BETA_BATCH[device.type]
    brancher = Filtered(int(o["probes"] or 0))
    return Method(
        _with_fields(Beta, o),
        brancher,
        batch=int(batch or 1),
        lp_threshold=None,
        leaf_lp=bool(o["leaf_lp"]),
        most=BETA_MOST[device.type] if o["batch"] is None else None,
        fill=min(BETA_FILL[device.type], int(batch or 1)),
    )


def _lirpa(o: Options, device: torch.device) -> Method:
    """Algorithm 1 of the paper."""
    batch = o["batch"] if o["batch"] is not None else BATCH[device.type]
    return Method(
        _with_fields(Lirpa, o),
        Babsr(),
        batch=int(batch or 1),
        lp_threshold=int(o["lp_threshold"] or 1),
        patience=int(o["patience"] or 0),
        leaf_lp=bool(o["leaf_lp"]),
    )


def _bdd(o: Options, device: torch.device) -> Method:
    """Lagrangian decomposition: no LP but at the leaves."""
    batch = int(o["batch"] if o["batch"] is not None else BATCH[device.type])
    fill = min(BDD_FILL[device.type], batch)
    return Method(_with_fields(Bdd, o), Babsr(), batch=batch, lp_threshold=None, leaf_lp=bool(o["leaf_lp"]), fill=fill)


def _gnn(o: Options, device: torch.device) -> Method:
    return replace(_lirpa(o, device), brancher=Gnn(weak=float(o["weak"] or 0.0)))


def _gnn_online(o: Options, device: torch.device) -> Method:
    return replace(_lirpa(o, device), brancher=Gnn(weak=float(o["weak"] or 0.0), online=True))


def _babsr_lp(o: Options, device: torch.device) -> Method:
    """Every bound is an LP's already, so none takes turns besides."""
    never = sys.maxsize
    return Method(_with_fields(BabsrLP, o), BabsrOriginal(), batch=1, lp_threshold=never, patience=never)


BUILDERS: dict[str, Callable[[Options, torch.device], Method]] = {
    "auto": _beta,
    "beta": _beta,
    "input-split": _beta,
    "lirpa": _lirpa,
    "lirpa-single": _lirpa,
    "lirpa-fixed": _lirpa,
    "bdd": _bdd,
    "gnn": _gnn,
    "gnn-online": _gnn_online,
    "babsr-lp": _babsr_lp,
    "mip": _beta,  # the search that proves what the solver claims
}


def resolve_device(name: str) -> torch.device:
    """ "auto" is the GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise UsageError(f"no device {name!r}", remedy="one of: auto, cpu, cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise DeviceError("no CUDA device is available", remedy="use --device cpu, or run `netproof doctor`")
    return torch.device(name)
