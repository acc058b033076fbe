"""Whether a module's own Python code looks at values of its input, where a trace cannot follow it.

An exported graph is a trace: what forward() did for one example. `if x.max() > 5` in it is decided once and for all. So
the module is run once under watch. Every tensor that the input flows into is known by its storage; an operation that
turns such a tensor into a Python number, or into a result whose shape depends on its values, is noted with the line
that asked for it. Shapes are Python numbers already and steer freely: the graph is made for one shape.
"""

from __future__ import annotations

import copy
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_INSIDE = (str(Path(torch.__file__).parent), copy.__file__, __file__)  # frames that are not the user's

# These read a tensor's memory without an operation that the dispatcher could show, or copy it out of the trace's sight:
# what is computed from such a copy stands in the graph as a constant.
_READING = (
    *("tolist", "numpy", "__array__", "__dlpack__", "__repr__", "__str__", "__format__"),
    *("__deepcopy__", "__reduce_ex__", "__reduce__"),
)
_DATA = Tensor.data.__get__  # type: ignore[attr-defined]


def looked_at(module: torch.nn.Module, x: Tensor) -> list[str]:
    """Run the module on x; return the places, FILE:LINE, that looked at values, the first one first."""
    watch = _Watch()
    watch.taint([x])
    with _Operations(watch), _Methods(watch):
        module(x)
    return watch.lines


class _Watch:
    """What is known of one run."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._storages: dict[int, Any] = {}  # kept alive, so that no address is given out twice
        self._addresses: set[int] = set()

    def taint(self, values: Any) -> None:
        for tensor in _tensors(values):
            storage = tensor.untyped_storage()
            self._storages[storage._cdata] = storage
            self._addresses.add(storage.data_ptr())

    def tainted(self, values: Any) -> bool:
        return any(tensor.untyped_storage()._cdata in self._storages for tensor in _tensors(values))

    def foreign(self, values: Any) -> bool:
        """Say whether a tensor has the memory of a tainted one, but not its storage: another library returned it."""
        strange = [t.untyped_storage() for t in _tensors(values) if t.untyped_storage()._cdata not in self._storages]
        return any(s.nbytes() and s.data_ptr() in self._addresses for s in strange)

    def note(self) -> None:
        stack = traceback.extract_stack()
        own = [frame for frame in stack if not frame.filename.startswith(_INSIDE)]
        frame = (own or stack)[-1]
        self.lines.append(f"{frame.filename}:{frame.lineno}")


class _Operations(TorchDispatchMode):
    """Sees every operation, those that a library makes in C++ too."""

    def __init__(self, watch: _Watch) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._watch = watch

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = (args, kwargs or {})
        tainted = self._watch.tainted(given)
        if (tainted and _asks_for_values(func, args, self._watch)) or self._watch.foreign(given):
            self._watch.note()
        result = func(*args, **(kwargs or {}))
        if tainted:
            self._watch.taint((result, _written(func, args, kwargs or {})))
        return result


class _Methods(TorchFunctionMode):
    """Sees the calls that read memory directly."""

    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if (getattr(func, "__name__", "") in _READING or func == _DATA) and self._watch.tainted(args):
            self._watch.note()
        return func(*args, **(kwargs or {}))


def _asks_for_values(func: Any, args: Sequence[Any], watch: _Watch) -> bool:
    if torch.Tag.data_dependent_output in func.tags:
        return True
    if torch.Tag.dynamic_output_shape not in func.tags:
        return False
    if func is not torch.ops.aten.index.Tensor:
        return True
    masks = [index for index in _tensors(args[1]) if index.dtype in (torch.bool, torch.uint8)]
    return watch.tainted(masks)  # an index of integers has a fixed shape


def _written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the arguments that the operation writes to."""
    declared = func._schema.arguments
    given = [*zip(declared, args, strict=False), *((d, kwargs[d.name]) for d in declared if d.name in kwargs)]
    return [value for d, value in given if d.alias_info is not None and d.alias_info.is_write]


def _tensors(values: Any) -> list[Tensor]:
    """Return the tensors with memory of their own in nested arguments."""
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor) and leaf.layout == torch.strided]
