"""A torch module as an ONNX model, and the comparison of what was made of it with the module itself.

The export is a trace at one example. Two things make it safe: a module whose Python code looks at values is refused
(`model.origin.steering`), and the graph is compared with the module, run as it is, wherever the graph is compared
with onnxruntime.
"""

from __future__ import annotations

import hashlib
import io
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from netproof.core.limits import LARGEST, entries
from netproof.core.machine.allowance import is_out_of_memory, unless_out_of_memory
from netproof.core.torch_state import callers_state
from netproof.errors import ModelError, NetproofError, UsageError
from netproof.model.evaluate import evaluate, float_error
from netproof.model.network import Network
from netproof.model.onnx.file import OnnxFile, parse
from netproof.model.origin.steering import looked_at
from netproof.numerics import few_roundings, generator

MODULE = "<torch module>"
EXPORT_OPSET = 17
_LOCK = threading.RLock()  # torch's exporter is one per process, and a module's modes are changed for a while
SLACK = 4.0  # multiple of the error bound that is allowed: kernels reorder and fuse across nodes
SEEN = 16.0  # multiple of one runtime's rounding, as it is seen, that another's may be
_RAISED = (RuntimeError, ValueError, IndexError, AssertionError)  # what modules raise on a wrong shape


@dataclass(frozen=True, eq=False)
class Runner:
    """The module itself on points of its input, one after another as it was exported."""

    module: torch.nn.Module
    example: Tensor  # with its batch axis, of the module's dtype and on its device
    chosen: Sequence[int] = (0,)  # which of the tensors that it returns are the network's outputs

    def __call__(self, points: Tensor) -> Tensor:
        """Run the module: (n, *example) -> (n, *output), float64 on the CPU."""
        with _LOCK, _as_it_is(self.module, self.example):
            return torch.stack([self._one(point) for point in points])

    def _one(self, point: Tensor) -> Tensor:
        like = next(self.module.parameters(), self.example)  # the caller may have moved it to a device or type since
        with _Running(self.module):
            answer = self.module(point.to(like.device, like.dtype))
        found = [leaf for leaf in tree_leaves(answer) if isinstance(leaf, Tensor)]
        if len(found) <= max(self.chosen):
            remedy = "return the same number of tensors for every input"
            raise ModelError(f"the module returns {len(found)} tensors", file=MODULE, remedy=remedy)
        chosen = [found[i].detach().to("cpu", torch.float64) for i in self.chosen]
        return chosen[0] if len(chosen) == 1 else torch.cat([part.flatten() for part in chosen])


def exported(module: torch.nn.Module, example_shape: tuple[int, ...] | None) -> tuple[OnnxFile, Runner]:
    """Export the module to ONNX in eval mode; return it and a way to run the module, which is left as it was."""
    if example_shape is None:
        raise UsageError(
            "a torch module does not say what its input looks like",
            remedy="give example_shape, such as (1, 28, 28)",
        )
    parameter = next(module.parameters(), None)
    example = torch.zeros(
        _checked_shape(example_shape),
        dtype=torch.float32 if parameter is None else parameter.dtype,
        device="cpu" if parameter is None else parameter.device,
    )
    with _LOCK, _as_it_is(module, example), _Running(module):
        example = _batched(module, example)
        _refuse_steering(module, example)
        data = _export(module, example)
        if _export(module, _another(example)) != data:
            raise ModelError(
                "its exported graph holds values of the example input, which are not the input's",
                file=MODULE,
                remedy="forward() must reach its input by operations that a trace follows, not by .data or a copy",
            )
    return parse(data, MODULE, hashlib.sha256(data).hexdigest()), Runner(module, example)


def _checked_shape(shape: Any) -> tuple[int, ...]:
    sizes = tuple(shape) if isinstance(shape, Sequence) and not isinstance(shape, str | bytes) else ()
    whole = all(isinstance(size, int | np.integer) and not isinstance(size, bool) and size > 0 for size in sizes)
    if not sizes or not whole or entries(sizes) > LARGEST:
        raise UsageError(
            f"example_shape cannot be {shape!r}"[:200], remedy="give the sizes of one input, such as (1, 28, 28)"
        )
    return tuple(int(size) for size in sizes)


def compare(network: Network, points: Tensor) -> None:
    """Compare the graph with the module that it was made from at points (n, *input); a mismatch is an error.

    They must agree within SLACK times the rounding that the module's own arithmetic may have; where no bound on that is
    finite, as behind several layers of attention, within what onnxruntime's is seen to be. Where neither has a number,
    as of the logarithm of a negative one or 0, other outputs or points must tell. A network that was not made from a
    module has nothing to be compared with.
    """
    if network.reference is None:
        return
    dtype = getattr(torch, network.input_dtype)
    points = points.to(dtype).to(torch.float64)
    theirs = network.reference(points)
    ours, error = evaluate(network.graph, points)
    if theirs.shape != ours.shape:
        raise _different(network, f"its output has shape {tuple(theirs.shape[1:])}, the graph's {network.output_shape}")
    # The attributes of an ONNX node are float32, even where its weights are not.
    coarse = torch.float32 if dtype == torch.float64 else dtype
    allowed = SLACK * (float_error(network.graph, points, coarse) + error)
    if not bool(allowed.isfinite().all()):
        allowed = torch.where(allowed.isfinite(), allowed, _seen_rounding(network, points, ours, coarse))
    gap = (theirs - ours).abs()
    neither = (theirs.isnan() & ours.isnan()) | (theirs.isinf() & (theirs == ours))
    if bool((neither | ((gap <= allowed) & allowed.isfinite())).all()) and not bool(neither.all()):
        return
    if bool(neither.all()):
        raise ModelError(
            "neither the module nor its exported graph gives a number at any point where they are compared",
            file=network.path,
            remedy="give logarithms and roots arguments that are positive near 0",
        )
    worst = int((gap / allowed).nan_to_num(nan=torch.inf).masked_fill(neither, 0.0).argmax())
    values = [float(t.flatten()[worst]) for t in (theirs, ours, allowed)]
    output = worst % max(1, network.graph.output.size)
    where = f"at output {output}: {values[0]:.9g} against {values[1]:.9g}, where rounding explains {values[2]:.3g}"
    raise _different(network, where)


def _seen_rounding(network: Network, points: Tensor, ours: Tensor, dtype: torch.dtype) -> Tensor:
    """Return how far another float arithmetic may be from ours, (): SEEN times as far as onnxruntime is at any point.

    Entries that are no numbers tell nothing; where there are no others the distance is infinite.
    """
    theirs = torch.stack([torch.from_numpy(network.replay(point.numpy()).astype("float64")) for point in points])
    gaps = (theirs - ours).abs() + few_roundings(ours.abs(), 2, dtype)
    known = gaps[gaps.isfinite()]
    return SEEN * known.max() if len(known) else torch.tensor(torch.inf, dtype=torch.float64)


def _different(network: Network, where: str) -> ModelError:
    return ModelError(
        f"the module does not compute what its exported graph does, {where}",
        file=network.path,
        remedy="a trace holds for one path through forward(); if the module changed since, load it again",
    )


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
def _as_it_is(module: torch.nn.Module, example: Tensor) -> Iterator[None]:
    """Put the module in eval mode, float32 as float32, the caller's default type and device; restore all of it."""
    modes = [(part, part.training) for part in module.modules()]
    precision, fast = torch.get_float32_matmul_precision(), torch.backends.mha.get_fastpath_enabled()
    cudnn = torch.backends.cudnn.flags(torch.backends.cudnn.enabled, deterministic=True, allow_tf32=False)
    try:
        module.eval()
        torch.set_float32_matmul_precision("highest")
        torch.backends.mha.set_fastpath_enabled(False)  # attention as one fused operator has no ONNX form
        with callers_state(), torch.no_grad(), cudnn, torch.autocast(example.device.type, enabled=False):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        torch.set_float32_matmul_precision(precision)
        for part, training in modes:
            part.training = training


def _another(example: Tensor) -> Tensor:
    """Make an input of the same shape with other values: what a trace takes from values differs between the two."""
    random = torch.rand(example.shape, generator=generator(1), dtype=torch.float64)
    return (2.0 * random - 1.0).to(example.device, example.dtype)


def _refuse_steering(module: torch.nn.Module, example: Tensor) -> None:
    lines = looked_at(module, example)
    if lines:
        raise ModelError(
            f"forward() looks at values of its input at {lines[0]}, which a graph cannot follow",
            file=MODULE,
            remedy="write it with tensor operations such as torch.where, or verify each case as a module of its own",
        )


def _export(module: torch.nn.Module, batched: Tensor) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # The exporter says that it is the older one, and warns of shapes in Python, which are fixed here.
        warnings.simplefilter("ignore")
        try:
            # Nothing is fused or folded, so the file's weights are the module's, bit for bit.
            torch.onnx.export(
                module,
                (batched,),
                buffer,  # type: ignore[arg-type]  # the older exporter writes to any file object
                opset_version=EXPORT_OPSET,
                dynamo=False,
                training=torch.onnx.TrainingMode.PRESERVE,
                do_constant_folding=False,
            )
        except (torch.onnx.errors.OnnxExporterError, RuntimeError) as error:
            unless_out_of_memory(error)
            first = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise ModelError(
                f"torch cannot export the module: {first}",
                file=MODULE,
                remedy="export it to ONNX yourself and give the file",
            ) from error
    return buffer.getvalue()


def _batched(module: torch.nn.Module, example: Tensor) -> Tensor:
    """Give the example a batch axis of 1. A leading 1 may be that axis already; then the module decides,

    and where it takes both, (1, n) and (1, C, H, W) have their batch and (1, H, W) is one image.
    """
    has_batch = example.shape[:1] == (1,) and _accepts(module, example)
    lacks_batch = _accepts(module, example[None])
    if has_batch and (example.ndim in (2, 4) or not lacks_batch):
        return example
    if lacks_batch:
        return example[None]
    raise UsageError(
        f"the module accepts neither {tuple(example.shape)} nor {tuple(example[None].shape)} as its input",
        remedy="give the example_shape of one input, such as (1, 28, 28)",
    )


def _accepts(module: torch.nn.Module, x: Tensor) -> bool:
    """Say whether the module runs on x."""
    try:
        module(x)
    except _RAISED as error:
        unless_out_of_memory(error)
        return False
    return True
