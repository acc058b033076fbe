"""Names of configurations for files: each says itself what it is, so none changes when another one joins."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from netproof.campaign.store import Result
from netproof.core.machine.versions import build
from netproof.errors import NetproofError
from netproof.methods.registry import method_info

LONGEST = 100  # characters, of a part of a name


def stable_name(result: Result) -> str:
    """Name a run's configuration by its method and whatever is not the default: `lirpa`, `lirpa_steps=10_seed=1`.

    The present version and the CPU are defaults too.
    """
    said = not_default(result)
    if result.attack != _attacks(result.method):
        said["attack"] = result.attack
    if result.seed:
        said["seed"] = result.seed
    if result.device not in ("cpu", ""):
        said["device"] = result.device
    if result.version not in (None, build()):
        said["netproof"] = result.version
    return file_name("_".join([result.method, *(f"{name}={value}" for name, value in said.items())]))


def not_default(result: Result) -> dict[str, Any]:
    """Return the options of a run that are not its method's defaults; all, where this version has no such method."""
    defaults = _defaults(result.method)
    return {name: value for name, value in result.options.items() if name not in defaults or value != defaults[name]}


@functools.cache
def _defaults(method: str) -> Mapping[str, Any]:
    try:
        return method_info(method).options()
    except NetproofError:
        return {}


@functools.cache
def _attacks(method: str) -> bool:
    try:
        return method_info(method).attacks
    except NetproofError:
        return True


def file_name(label: str) -> str:
    """Turn a label into a part of a file's name; one that is not the label itself ends in a hash of that."""
    plain = readable(label)
    return plain if plain == label else f"{plain[: LONGEST - 9]}_{short_hash(label)}"


def readable(label: str) -> str:
    """Return the characters of a label that any file's name may have; different labels may be the same then."""
    return re.sub(r"[^A-Za-z0-9._=-]+", "_", label).strip("_")[:LONGEST]


def short_hash(*labels: str) -> str:
    """Return a few characters that differ where labels do."""
    return hashlib.sha256(json.dumps(labels).encode()).hexdigest()[:8]
