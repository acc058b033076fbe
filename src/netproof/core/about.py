"""What an answer is about, as plain values: hashes that tell one network from another. No torch here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ModuleIdentity:
    """A torch module when it was read."""

    name: str  # of its class, with the module that defines it
    weights: str  # the SHA-256 of its parameters and buffers, by name
    shape: tuple[int, ...]  # that it was called with


@dataclass(frozen=True)
class Subject:
    """A network of a question: a file or a torch module."""

    name: str  # as a query names it; "model" where it is the only one
    file: str | None  # the SHA-256 of the file as it is on disk; None of a module
    external: tuple[str, ...] = ()  # those of the files beside it that hold weights
    module: ModuleIdentity | None = None


@dataclass(frozen=True)
class About:
    """What was bounded, and where it came from."""

    graph: str | None  # the hash of the graph; None where a plug-in's operator has parts without a canonical form
    networks: tuple[Subject, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, which json can write."""
        return dataclasses.asdict(self)

    @classmethod
    def of_dict(cls, plain: Mapping[str, Any]) -> About:
        """Return it from what `to_dict` gave, through json or not."""

        def subject(one: Mapping[str, Any]) -> Subject:
            module = one["module"]
            made = None if module is None else ModuleIdentity(**{**module, "shape": tuple(module["shape"])})
            return Subject(one["name"], one["file"], tuple(one["external"]), made)

        return cls(plain["graph"], tuple(subject(one) for one in plain["networks"]))
