"""A torch module as an ONNX model, and the module itself as what its graph is compared with.

forward() is run under watch and then recorded without values (`model.origin.watched`, `model.origin.capture`); torch's
exporter turns the recorded graph into ONNX by running the graph, so that no code of the user runs under it. What is
made of it is compared with the module, run as it is, wherever a counterexample is sought (`model.origin.likeness`).
"""

from __future__ import annotations

import hashlib
import io
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from netproof.core.about import ModuleIdentity
from netproof.core.limits import LARGEST, entries
from netproof.core.machine.allowance import is_out_of_memory, unless_out_of_memory
from netproof.core.torch_state import callers_state
from netproof.errors import ModelError, NetproofError, UsageError
from netproof.model.onnx.file import OnnxFile, parse
from netproof.model.origin.capture import Recorded, captured
from netproof.model.origin.identity import module_identity
from netproof.model.origin.watched import Note, OtherPath, called, fresh, uncollected, watched
from netproof.numerics import generator

MODULE = "<torch module>"
EXPORT_OPSET = 17
_OURS = ("netproof", "contextlib")  # modules whose frames lie between who calls netproof and a warning
_LOCK = threading.RLock()  # torch's exporter is one per process, and a module's modes are changed for a while


@dataclass(frozen=True, eq=False)
class Runner:
    """The module itself, and the graph that was recorded of it, on points of its input one after another."""

    module: torch.nn.Module
    recorded: Recorded
    example: Tensor  # of the shape that the module is called with, its dtype and its device
    chosen: Sequence[int] = (0,)  # which of the tensors of `Recorded` are the network's outputs

    def answers(self, points: Tensor) -> list[list[Tensor]]:
        """Run the module; return by point (n,) the tensors that it returns. What it keeps of that is undone."""
        with _LOCK, _as_it_is(self.module, self.example), fresh(self.module), _Running(self.module):
            return [_tensors(self.module(self._input(point))) for point in points]

    def operations(self, points: Tensor) -> list[list[Tensor]]:
        """Run the recorded operations; return by point the tensors of `Recorded`, each as it was computed."""
        with _LOCK, _as_it_is(self.module, self.example):
            return [list(self.recorded.module(self._input(point))) for point in points]

    def outputs(self, runs: Sequence[Sequence[Tensor]]) -> Tensor:
        """Return the network's outputs among the tensors of these runs: (n, *output), float64 on the CPU."""
        return torch.stack([self._joined(tensors) for tensors in runs])

    @property
    def has_inner_outputs(self) -> bool:
        """Say whether an output of the network lies inside, so that the module does not return it."""
        return max(self.chosen) >= len(self.recorded.answers)

    @property
    def is_moved(self) -> bool:
        """Say whether the caller has moved the module to another device or type since it was recorded."""
        with _LOCK:
            like = self._like()
            return (like.device, like.dtype) != (self.example.device, self.example.dtype)

    def _like(self) -> Tensor:
        return _first_number(self.module, self.example)

    def _input(self, point: Tensor) -> Tensor:
        """Return the point as the module takes it, in memory that forward() may write to."""
        like = self._like()
        return point.reshape(self.example.shape).to(like.device, like.dtype, copy=True)

    def _joined(self, tensors: Sequence[Tensor]) -> Tensor:
        chosen = [tensors[i].detach().to("cpu", torch.float64) for i in self.chosen]
        return torch.atleast_1d(chosen[0]) if len(chosen) == 1 else torch.cat([part.flatten() for part in chosen])


def _first_number(module: torch.nn.Module, otherwise: Tensor) -> Tensor:
    """Return the parameter or buffer whose type and device the input has."""
    return next((t for t in (*module.parameters(), *module.buffers()) if t.is_floating_point()), otherwise)


def _tensors(answer: Any) -> list[Tensor]:
    return [leaf.detach() for leaf in tree_leaves(answer) if isinstance(leaf, Tensor)]


@dataclass(frozen=True, eq=False)
class Export:
    """A module as an ONNX file, and the module beside it."""

    file: OnnxFile
    runner: Runner
    identity: ModuleIdentity
    notes: tuple[str, ...]  # what the user should know about how it was called


def exported(module: torch.nn.Module, shape: tuple[int, ...] | None, *, stacked: bool = False) -> Export:
    """Export the module in eval mode, as it is called with an input of this shape; it is left as it was.

    stacked: the shape is that of one entry of a stack, of which the module is given one at a time.
    """
    if shape is None:
        raise UsageError(
            "a torch module does not say what its input looks like",
            remedy="give example_shape, the shape that it is called with, such as (1, 1, 28, 28)",
        )
    shape = _checked_shape(shape)
    # While another thread reads it, its weights may be tensors without values.
    with _LOCK, uncollected():
        tensors = [*module.parameters(), *module.buffers()]
        if any(tensor.is_meta for tensor in tensors):
            raise ModelError(
                "its weights are on the meta device, so there are none", file=MODULE, remedy="load weights"
            )
        like = _first_number(module, torch.empty(0, dtype=torch.float32))
        blank = torch.empty(0, dtype=like.dtype, device=like.device)
        fast = torch.backends.mha.get_fastpath_enabled()
        with _as_it_is(module, blank):
            called_with, notes = _called_with(module, blank, shape, stacked)
            _refuse_other_modes(module, called_with, fast)
            example = called_with.x
        with _as_it_is(module, blank):  # anew, as forward() may have loaded what compiles by now
            recorded = _recorded(module, example)
            data = _to_onnx(recorded, example)
        identity = module_identity(module, tuple(example.shape))
    file = parse(data, MODULE, hashlib.sha256(data).hexdigest())
    return Export(file, Runner(module, recorded, example), identity, notes)


def _called_with(
    module: torch.nn.Module, blank: Tensor, shape: tuple[int, ...], stacked: bool
) -> tuple[_Attempt, tuple[str, ...]]:
    """Return a call on random numbers in the module's shape, and a note where it runs on another too.

    That is the caller's own shape, if the module runs on it, else the one with a batch axis of 1 in front; of a stack,
    the other way round.
    """
    shapes = [shape, (1, *shape)]
    runs = [_Attempt.of(module, blank, one) for one in (reversed(shapes) if stacked else shapes)]
    first, second = runs
    if first.error is not None and second.error is not None:
        what = " ".join(f"{type(first.error).__name__}: {first.error}".split())
        where = f"called with shape {first.shape}; it does not run on {second.shape} either"
        raise UsageError(
            f"the module {type(module).__name__} raised {what[:500]}, {where}",
            file=MODULE,
            remedy="give the shape that it is called with, such as (1, 1, 28, 28)",
        ) from first.error
    if first.error is not None:
        return second, ()
    if second.error is not None or first.same_as(second):
        return first, ()
    note = f"the module is called with shape {first.shape}; on {second.shape} it runs too, with another result"
    if len(shape) != 2 or shape[0] != 1:  # (1, n) is one vector with its batch axis, whatever else runs
        warnings.warn(note, stacklevel=_callers_level())
    return first, (note,)


def _refuse_other_modes(module: torch.nn.Module, attempt: _Attempt, fast: bool) -> None:
    """Refuse a module that has another result where gradients are recorded, or on torch's fast path for attention.

    It is read without both. One that fails with either has no other result there.
    fast: whether the caller lets torch take that path, as torch does unless it is told.
    """
    if not attempt.results:
        raise ModelError(
            "forward() returns no tensor", file=MODULE, remedy="return the tensor that the question is about"
        )
    with _quietly(), fresh(module), torch.enable_grad():
        recording = _Attempt.on(module, attempt.x)
    if recording.error is None and not attempt.same_as(recording):
        raise ModelError(
            "forward() has another result where gradients are recorded than under torch.no_grad()",
            file=MODULE,
            remedy="let it compute the same in both",
        )
    if not fast:
        return
    torch.backends.mha.set_fastpath_enabled(True)
    try:
        with _quietly(), fresh(module):
            quick = _Attempt.on(module, attempt.x)
    finally:
        torch.backends.mha.set_fastpath_enabled(False)
    if quick.error is None and not attempt.same_as(quick):
        raise ModelError(
            "torch's fast path for attention has another result than the layers as they are written",
            file=MODULE,
            remedy="call torch.backends.mha.set_fastpath_enabled(False): then the module computes what is verified",
        )


def _callers_level() -> int:
    """Return how many frames up, from who asks, the code is that called netproof."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _OURS:
        frame, level = frame.f_back, level + 1
    return level


@dataclass(frozen=True, eq=False)
class _Attempt:
    """A call of the module with one shape."""

    x: Tensor
    results: list[Tensor]
    error: Exception | None = None

    @staticmethod
    def of(module: torch.nn.Module, blank: Tensor, shape: tuple[int, ...]) -> _Attempt:
        """Call it; whatever it raises says that the shape is wrong, or it is told to the user."""
        random = torch.rand(shape, generator=generator(1), dtype=torch.float64)
        x = (2.0 * random - 1.0).to(blank.device, blank.dtype)
        try:
            answer, note = called(module, x)
        except Exception as error:
            unless_out_of_memory(error)
            return _Attempt(x, [], error)
        if note is not None:
            raise _cannot_follow(note)
        return _Attempt(x, _tensors(answer))

    @staticmethod
    def on(module: torch.nn.Module, x: Tensor) -> _Attempt:
        """Call it on x, unwatched."""
        try:
            return _Attempt(x, _tensors(module(x.clone())))
        except Exception as error:
            unless_out_of_memory(error)
            return _Attempt(x, [], error)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.x.shape)

    def same_as(self, other: _Attempt) -> bool:
        """Say whether both give the same numbers, in whatever shape."""
        pairs = list(zip(self.results, other.results, strict=False))
        return len(self.results) == len(other.results) and all(
            a.numel() == b.numel() and torch.allclose(a.flatten(), b.flatten(), 1e-3, 1e-5, equal_nan=True)
            for a, b in pairs
        )


def _recorded(module: torch.nn.Module, example: Tensor) -> Recorded:
    """Record what the module computes; ModelError where a graph cannot follow it."""
    with _Running(module), _quietly():
        run, note = watched(module, example)
    if note is not None:
        raise _cannot_follow(note)
    try:
        with _quietly():
            return captured(module, example, run)
    except OtherPath as error:
        raise ModelError(
            f"forward() takes another path when it is recorded, at {error.place}, which a graph cannot follow",
            file=MODULE,
            remedy="let it do the same in every call",
        ) from error
    except Exception as error:  # whatever torch, or forward() on tensors that are recorded, raises
        unless_out_of_memory(error)
        raise _cannot_export(error) from error


def _cannot_follow(note: Note) -> ModelError:
    return ModelError(
        f"forward() {note.what} at {note.place}, which a graph cannot follow",
        file=MODULE,
        remedy=note.remedy,
    )


def _cannot_export(error: Exception) -> ModelError:
    first = next(iter(str(error).strip().splitlines()), "")
    return ModelError(
        f"torch cannot export the module: {type(error).__name__}: {first}"[:600],
        file=MODULE,
        remedy="export it to ONNX yourself and give the file",
    )


def _to_onnx(recorded: Recorded, example: Tensor) -> bytes:
    """Return an ONNX model of the answers, in which the operations' results have names."""
    buffer = io.BytesIO()
    with _quietly():
        try:
            # Nothing is fused or folded, so the file's weights are the module's, bit for bit.
            torch.onnx.export(
                recorded.module,
                (example,),
                buffer,  # type: ignore[arg-type]  # the older exporter writes to any file object
                input_names=["input"],
                output_names=recorded.tensors,
                opset_version=EXPORT_OPSET,
                dynamo=False,
                training=torch.onnx.TrainingMode.PRESERVE,
                do_constant_folding=False,
            )
        except Exception as error:  # an operator's form may end in any of Python's own, such as AssertionError
            unless_out_of_memory(error)
            raise _cannot_export(error) from error
    model = onnx.ModelProto.FromString(buffer.getvalue())
    del model.graph.output[len(recorded.answers) :]
    return bytes(model.SerializeToString())


def _checked_shape(shape: Any) -> tuple[int, ...]:
    sizes = tuple(shape) if isinstance(shape, Sequence) and not isinstance(shape, str | bytes) else ()
    whole = all(isinstance(size, int | np.integer) and not isinstance(size, bool) and size > 0 for size in sizes)
    if not sizes or not whole or entries(sizes) > LARGEST:
        raise UsageError(
            f"example_shape cannot be {shape!r}"[:200], remedy="give the sizes of one input, such as (1, 28, 28)"
        )
    return tuple(int(size) for size in sizes)


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep torch from telling of its own work: that an exporter is old, that shapes are fixed, or its whole graph."""
    switch = torch._C._jit_set_onnx_log_enabled
    logged = torch._C._jit_is_onnx_log_enabled()
    switch(False)
    try:
        with (
            warnings.catch_warnings(),
            # The exporter to ONNX turns its log on, whatever it is told, and torch.export prints what it has recorded.
            patch.object(torch._C, "_jit_set_onnx_log_enabled", _nothing),
            patch("torch.export._trace.print", _nothing, create=True),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        switch(logged)


def _nothing(*args: object, **kwargs: object) -> None: ...


class _Running:
    """Code of the user runs inside: whatever it raises becomes a ModelError that says so."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._name = type(module).__name__

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, NetproofError) and not is_out_of_memory(error):
            what = " ".join(f"{type(error).__name__}: {error}".split())
            raise ModelError(
                f"the module {self._name} raised {what}",
                file=MODULE,
                remedy="call it yourself on an input of that shape",
            ) from error


@contextmanager
def _as_it_is(module: torch.nn.Module, like: Tensor) -> Iterator[None]:
    """Put the module in eval mode, float32 as float32, the caller's default type and device; restore all of it."""
    modes = [(part, part.training) for part in module.modules()]
    precision, fast = torch.get_float32_matmul_precision(), torch.backends.mha.get_fastpath_enabled()
    cudnn = torch.backends.cudnn.flags(torch.backends.cudnn.enabled, deterministic=True, allow_tf32=False)
    try:
        if any(training for _, training in modes):
            _switch(module, training=False)
        torch.set_float32_matmul_precision("highest")
        torch.backends.mha.set_fastpath_enabled(False)  # attention as one fused operator has no ONNX form
        with callers_state(), torch.no_grad(), cudnn, torch.autocast(like.device.type, enabled=False), _not_compiled():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        torch.set_float32_matmul_precision(precision)
        for part, training in modes:
            if part.training != training:
                _switch(part, training=training)
        for part, training in modes:
            part.training = training


def _switch(module: torch.nn.Module, *, training: bool) -> None:
    """Switch a module's mode by its own train(), which may do more than set it."""
    try:
        module.train(training)
    except NotImplementedError:  # a graph of torch.export has no modes
        return


@contextmanager
def _not_compiled() -> Iterator[None]:
    """Let what is compiled run as it was written: torch.compile keeps the meaning, and no graph is recorded of it."""
    dynamo = sys.modules.get("torch._dynamo")  # without it, nothing was compiled
    if dynamo is None:
        yield
        return
    with torch.compiler.set_stance("force_eager"), dynamo.config.patch(error_on_nested_fx_trace=False):
        yield
