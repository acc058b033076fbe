"""One door for every kind of network: an ONNX file, a torch module, or one that is loaded already."""

from __future__ import annotations

import hashlib
import io
import warnings
from pathlib import Path
from types import TracebackType

import torch

from netproof.core.torch_state import callers_state, engine_state
from netproof.errors import ModelError, NetproofError, UsageError
from netproof.model.evaluate import cross_check
from netproof.model.network import Network
from netproof.model.onnx_file import OnnxFile, parse, read_file
from netproof.model.onnx_reader import read_graph
from netproof.numerics import generator

MODULE = "<torch module>"
EXPORT_OPSET = 17


@engine_state()
def load_network(
    source: str | Path | torch.nn.Module | Network, *, example_shape: tuple[int, ...] | None = None
) -> Network:
    """Read a network and compare it with onnxruntime.

    `example_shape` is the shape of one input to a torch module, with or without a leading batch axis of 1.
    """
    if isinstance(source, Network):
        return source
    if isinstance(source, torch.nn.Module):
        file = _exported(source, example_shape)
    elif isinstance(source, str | Path):
        file = read_file(source)
    else:
        raise UsageError(
            f"a network cannot be made from {type(source).__name__}",
            remedy="give a path to an ONNX file or a torch.nn.Module",
        )
    network = from_file(file)
    cross_check(network, _probes(network.input_shape))
    return network


def from_file(file: OnnxFile) -> Network:
    """The network of a parsed file, not yet compared with onnxruntime."""
    reading = read_graph(file)
    graph = reading.graph
    return Network(
        graph=graph,
        path=file.path,
        sha256=file.sha256,
        input_shape=graph.input.shape,
        output_shape=graph.output.shape,
        opset=file.opset,
        weight_dtypes=reading.weight_dtypes,
        notes=reading.notes,
        input_name=reading.input_name,
        input_dtype=reading.input_dtype,
        model=file.data,
    )


def _probes(shape: tuple[int, ...]) -> torch.Tensor:
    """Zero, and seeded points of [0, 1] and [-1, 1]: (5, *input)."""
    random = torch.rand(4, *shape, generator=generator(0), dtype=torch.float64)
    return torch.cat([torch.zeros(1, *shape, dtype=torch.float64), random[:2], 2.0 * random[2:] - 1.0])


def _exported(module: torch.nn.Module, example_shape: tuple[int, ...] | None) -> OnnxFile:
    """The module as ONNX, exported on the CPU in eval mode; the module itself is left as it was."""
    if example_shape is None:
        raise UsageError(
            "a torch module does not say what its input looks like",
            remedy="give example_shape, such as (1, 28, 28)",
        )
    parameter = next(module.parameters(), None)
    example = torch.zeros(
        tuple(example_shape),
        dtype=torch.float32 if parameter is None else parameter.dtype,
        device="cpu" if parameter is None else parameter.device,
    )
    modes = [(part, part.training) for part in module.modules()]
    try:
        module.eval()
        with callers_state(), _Running(module):
            data = _export(module, example)
    finally:
        for part, training in modes:
            part.training = training
    return parse(data, MODULE, hashlib.sha256(data).hexdigest())


class _Running:
    """Code of the user's runs inside: whatever it raises is theirs to mend, and is told as such."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._name = type(module).__name__

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, NetproofError):
            what = " ".join(f"{type(error).__name__}: {error}".split())
            raise ModelError(
                f"the module {self._name} raised {what}",
                file=MODULE,
                remedy="call it yourself on an input of that shape",
            ) from error


def _export(module: torch.nn.Module, example: torch.Tensor) -> bytes:
    batched = _batched(module, example)
    buffer = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the exporter says that it is the older one
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
            first = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise ModelError(
                f"torch cannot export the module: {first}",
                file=MODULE,
                remedy="export it to ONNX yourself and give the file",
            ) from error
    return buffer.getvalue()


def _batched(module: torch.nn.Module, example: torch.Tensor) -> torch.Tensor:
    """The example with a batch axis of 1. A leading 1 may be that axis already; then the module decides,

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


def _accepts(module: torch.nn.Module, x: torch.Tensor) -> bool:
    """Whether the module runs on x; these are what modules raise on a wrong shape."""
    try:
        with torch.no_grad():
            module(x)
    except (RuntimeError, ValueError, IndexError, AssertionError):
        return False
    return True
