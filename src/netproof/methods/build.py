"""Configured searches of netproof's own methods, from their options."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

import torch

from netproof.bounds.beta import Beta
from netproof.bounds.lirpa import Lirpa
from netproof.branching.babsr import Babsr, BabsrOriginal
from netproof.branching.filtered import Filtered
from netproof.core.extras import Extras
from netproof.methods.registry import Options, method_info
from netproof.search.envelope.first import EnvelopeFirst
from netproof.search.method import Method
from netproof.search.restart import RestartWithLP

BATCH = {"cpu": 32, "cuda": 400}
BETA_BATCH = {"cpu": 64, "cuda": 4096}
BETA_MOST = {"cpu": 64, "cuda": 16384}
BETA_FILL = {"cpu": 8, "cuda": 256}  # a GPU bounds hundreds in the time of one

T = TypeVar("T")


def build_method(name: str, options: Options, device: torch.device) -> Method:
    """Build the method of that name, with a value for every field."""
    method: Method = method_info(name).build(options, device)
    return method


def with_fields(kind: type[T], options: Options) -> T:
    """Make a part whose fields are the method's options of the same names."""
    own = {field.name for field in fields(kind) if field.init}  # type: ignore[arg-type]
    chosen: dict[str, Any] = {name: value for name, value in options.items() if name in own}
    return kind(**chosen)


def beta(options: Options, device: torch.device) -> Method:
    """Build slopes with multipliers and filtered branching; many sub-domains at once where many are open."""
    given = options["batch"]
    batch = int(BETA_BATCH[device.type] if given is None else given)
    return Method(
        with_fields(Beta, options),
        Filtered(),
        batch=batch,
        lp_threshold=None,
        leaf_lp=bool(options["leaf_lp"]),
        most=BETA_MOST[device.type] if given is None else None,
        fill=min(BETA_FILL[device.type], batch),
        extras=with_fields(Extras, options),
        search=EnvelopeFirst,
    )


def lirpa(options: Options, device: torch.device) -> Method:
    """Build Algorithm 1 of the paper."""
    given = options["batch"]
    n = int(BATCH[device.type] if given is None else given)
    return Method(
        with_fields(Lirpa, options),
        Babsr() if options.get("gains_only") else BabsrOriginal(),
        batch=n,
        fill=n if options["grow"] else 1,
        lp_threshold=int(options["lp_threshold"] or 1),
        search=RestartWithLP if options["lp_restart"] else None,
        patience=int(options["patience"] or 0),
        strict=bool(options["strict"]),
        leaf_lp=bool(options["leaf_lp"]),
        extras=with_fields(Extras, options),
    )
