"""Operators that only move numbers, all in one way: the entries are numbered, and the numbers are moved.

onnx's reference implementation runs the node on the numbers of the entries instead of the entries; what comes out says
which entry stands where. So every attribute and every opset means what onnx says that it means, and an entry is moved
whole, with the bounds on its rounding. Number 0 is the zero that some operators fill with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from netproof.model.moves import Index, Reshape
from netproof.model.onnx.context import Context, Ref, Value, converts
from netproof.model.onnx.folding.reference import evaluate
from netproof.model.onnx.operators.moves import joined, pad_by_constant
from netproof.model.origin.constant import Constant

# The inputs whose numbers are moved; all others say where to and must be constants.
MOVED: dict[str, tuple[int, ...]] = {
    "CenterCropPad": (0,),
    "Compress": (0,),
    "DepthToSpace": (0,),
    "GatherElements": (0,),
    "GatherND": (0,),
    "MaxUnpool": (0,),
    "OneHot": (2,),
    "Pad": (0, 2),
    "ReverseSequence": (0,),
    "Scatter": (0, 2),
    "ScatterElements": (0, 2),
    "ScatterND": (0, 2),
    "SpaceToDepth": (0,),
    "Tile": (0,),
    "Trilu": (0,),
    "Where": (1, 2),
}


@converts(*(operator for operator in MOVED if operator not in ("Pad", "Where")))
def _rearranged(c: Context) -> Value:
    """Select entries, exactly; where they come from must be constant."""
    return rearranged(c)


@converts("Pad")
def _pad(c: Context) -> Value:
    """Add a frame of a constant, or of entries that are reflected, repeated or wrapped, exactly."""
    return pad_by_constant(c) if c.attr("mode", "constant") == "constant" else rearranged(c)


def rearranged(c: Context) -> Value:
    """Select entries of the inputs as the operator moves their numbers; a constant where all of them are."""
    if c.op == "MaxUnpool" and c.input(2) is not None:
        c.refuse("runtimes differ on what its output_shape does to the indices", "export without output_shape")
    if c.attr("reduction", "none") != "none":
        c.refuse(f"its reduction {c.attr('reduction')!r} joins entries that meet", "export with reduction='none'")
    if c.op == "Scatter":  # the name of ScatterElements until opset 11
        c = c.instead("ScatterElements", list(c.inputs), axis=c.attr("axis", 0))
    sources = [c.value(i) for i in MOVED[c.op] if c.input(i) is not None]
    numbers = _numbers(c)
    if c.op.startswith("Scatter"):
        _check_once(c, numbers)
    if (numbers == 0).any():
        sources.append(_zero(sources))
        numbers = np.where(numbers == 0, sum(math.prod(v.shape) for v in sources), numbers)  # the last of all
    return pick(c, sources, numbers - 1)


def _zero(sources: Sequence[Value]) -> Constant:
    first = sources[0]
    kind = first.value.dtype if isinstance(first, Constant) else np.dtype(np.float64)
    return Constant(np.zeros(1, dtype=kind), dtype=torch.float64)


def pick(c: Context, sources: Sequence[Value], index: np.ndarray) -> Value:
    """Return the entries `index` of all sources, flattened one after the other, in the shape of the index."""
    flat = [_flat(c, source) for source in sources]
    if all(isinstance(source, Constant) for source in flat):
        return _picked([source for source in flat if isinstance(source, Constant)], index)
    if index.size == 0:
        c.refuse("its result has size zero", "zero-size tensors cannot be verified")
    whole = joined(c, [source for source in flat if source.shape != (0,)], 0)
    taken = index.reshape(-1)
    if not np.array_equal(taken, np.arange(whole.shape[0])):
        whole = c.emit(Index(0, torch.from_numpy(np.ascontiguousarray(taken, dtype=np.int64)), whole.shape[0]), whole)
    return c.emit(Reshape(whole.shape, tuple(index.shape)), whole)


def _flat(c: Context, source: Value) -> Value:
    if isinstance(source, Constant):
        return source.moved(lambda entries: entries.reshape(-1))
    size = math.prod(source.shape)
    return source if source.shape == (size,) else c.emit(Reshape(source.shape, (size,)), source)


def _picked(sources: Sequence[Constant], index: np.ndarray) -> Constant:
    """Select entries of constants, and the bounds on their rounding with them."""
    widths: list[np.ndarray | None] = []
    for kind in ("radius", "slack"):
        if all(getattr(source, kind) is None for source in sources):
            widths.append(None)
            continue
        found = [getattr(s, kind) if getattr(s, kind) is not None else np.zeros(s.shape) for s in sources]
        widths.append(np.concatenate([np.broadcast_to(w, s.shape) for w, s in zip(found, sources, strict=True)])[index])
    radius, slack = widths
    return Constant(np.concatenate([s.value for s in sources])[index], radius, slack, sources[0].dtype)


def _check_once(c: Context, numbers: np.ndarray) -> None:
    """Refuse updates of which one overwrites another: onnx leaves open which."""
    data, updates = (math.prod(c.value(i).shape) for i in MOVED[c.op])
    if np.unique(numbers[numbers > data]).size != updates:
        c.refuse("two of its updates go to the same place, and onnx leaves open which one stays", "export them once")


def _numbers(c: Context) -> np.ndarray:
    """Run the operator on the numbers of the sources' entries, counted from 1."""
    arrays: list[np.ndarray | None] = [None] * len(c.inputs)
    start = 1
    for position in MOVED[c.op]:
        value = c.input(position)
        if value is not None:
            size = math.prod(value.shape)
            arrays[position] = np.arange(start, start + size, dtype=np.int64).reshape(value.shape)
            start += size
    for position, value in enumerate(c.inputs):
        if value is None or position in MOVED[c.op]:
            continue
        if isinstance(value, Ref):
            c.refuse(f"input {position}, which says where numbers go, depends on the network's input")
        arrays[position] = value.value
    return evaluate(c, arrays)[0].astype(np.int64)
