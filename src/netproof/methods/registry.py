"""What a method is, and which there are: netproof's own, and those that other packages register.

A package registers methods by an entry point of the group `netproof.methods` that names a sequence of `MethodInfo`.
Nothing heavy is imported here: what builds a method is imported when it is first built.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from netproof.arguments import fields
from netproof.core.plug_ins import offered
from netproof.errors import UsageError
from netproof.methods.options import Field, Value

GROUP = "netproof.methods"

Options = Mapping[str, Value]


@dataclass(frozen=True)
class MethodInfo:
    """A method, declared once: its name, its fields, what builds it and when it splits inputs."""

    name: str
    summary: str
    fields: tuple[Field, ...]
    builder: str  # "module:function", (options, device) -> netproof.search.method.Method
    splits_inputs: Literal["never", "few", "always"] = "never"  # "few": where few of them vary
    attacks: bool = True  # whether counterexamples are looked for first, unless the caller says

    def options(self, given: Mapping[str, Any] | None = None) -> dict[str, Value]:
        """Return every field's value: the default, or what was given, as text or as a value."""
        values = {f.name: f.default for f in self.fields}
        known = {f.name: f for f in self.fields}
        for name, value in fields(given, "options").items():
            if name not in known:
                raise UsageError(
                    f"{name}: method {self.name!r} has no such field", remedy=f"its fields: {', '.join(sorted(known))}"
                )
            values[name] = known[name].parse(value)
        return values

    def build(self, options: Options, device: Any) -> Any:
        """Build the configured search, a `netproof.search.method.Method`, with a value for every field."""
        module, _, function = self.builder.partition(":")
        build: Callable[[Options, Any], Any] = getattr(importlib.import_module(module), function)
        return build(options, device)


class _Methods(Mapping[str, MethodInfo]):
    """All methods by name. Other packages are asked only when a name is not netproof's own, or for the whole list."""

    @functools.cached_property
    def _own(self) -> dict[str, MethodInfo]:
        from netproof.methods import declared

        return {info.name: info for info in declared.METHODS}

    @functools.cached_property
    def _all(self) -> dict[str, MethodInfo]:
        methods = dict(self._own)
        for place, found in offered(GROUP):
            for info in found:
                if not isinstance(info, MethodInfo):
                    raise UsageError(f"{place} registers {info!r}, which is no MethodInfo", remedy="mend that package")
                if info.name in methods:
                    raise UsageError(
                        f"method {info.name!r} is registered twice, the second time by {place}",
                        remedy="uninstall one of the packages",
                    )
                methods[info.name] = info
        return methods

    def __getitem__(self, name: str) -> MethodInfo:
        return self._own[name] if name in self._own else self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


METHODS: Mapping[str, MethodInfo] = _Methods()


def method_info(name: str) -> MethodInfo:
    """Return the method of that name."""
    if name not in METHODS:
        raise UsageError(f"no method {name!r}", remedy=f"one of: {', '.join(METHODS)}")
    return METHODS[name]
