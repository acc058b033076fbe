"""Networks of every kind: from an ONNX file, from a torch module, or loaded already."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from netproof import arguments
from netproof.core.cpu import threads_for
from netproof.core.machine.allowance import said_plainly
from netproof.core.torch_state import engine_state
from netproof.errors import ModelError, OutOfMemory, UsageError
from netproof.model.combined import AnyNetwork
from netproof.model.network import Network
from netproof.model.onnx.file import OnnxFile, read_file
from netproof.model.onnx.reader import read_graph
from netproof.model.origin.cross_check import cross_check
from netproof.model.origin.external import identity
from netproof.model.origin.likeness import compare
from netproof.model.origin.torch_module import MODULE, Export, exported
from netproof.numerics import generator

PROBED = 1 << 25  # numbers in all layers at all points of the first comparison, at most
COMPARED = 1 << 23  # numbers in all layers at the points of one kind at which a module is compared with its graph
FEWEST, MOST = 4, 64  # points of one kind at which it is
ROOM = "free some memory, or give a smaller model"
RECENT = 1 << 25  # bytes of the files whose networks are kept for the next question, at most

_recent: OrderedDict[tuple[str, str, tuple[str, ...] | None], Network] = OrderedDict()  # the last used last
_recent_lock = threading.Lock()


@engine_state()
def load_network(
    source: str | Path | torch.nn.Module | Network,
    *,
    example_shape: tuple[int, ...] | None = None,
    outputs: Sequence[str] | None = None,
) -> Network:
    """Read a network and compare it with onnxruntime, and with the module where it is made from one.

    `example_shape` is the shape that a torch module is called with; a batch axis of 1 is put in front of it only where
    the module does not run without. `outputs` names the tensors that the network answers with, of its outputs or from
    inside; without it, all outputs. Several inputs are one vector, each flattened, in the file's order, and so are
    several outputs; `Network.inputs` and `Network.outputs` say what they are made of.
    """
    if isinstance(source, Network):
        return read_network(source, outputs=outputs)
    network = read_network(source, example_shape, outputs)
    torch.set_num_threads(threads_for(network.graph.entries, None))
    check(network, probes(network))
    return network


def read_network(
    source: str | Path | torch.nn.Module | Network,
    example_shape: tuple[int, ...] | None = None,
    outputs: Sequence[str] | None = None,
    *,
    stacked: bool = False,
) -> Network:
    """Read a network; the caller must still compare it with `check`.

    stacked: `example_shape` is that of one entry of a stack (N, *shape), which a module is called with one at a time.
    """
    with _in_memory(source):
        return _read(source, example_shape, outputs, stacked)


def _in_memory(source: object) -> AbstractContextManager[None]:
    """Say which network it was where memory runs out."""
    name = str(source) if isinstance(source, str | Path) else getattr(source, "path", MODULE)
    return said_plainly(OutOfMemory("out of memory while it was read", file=name, remedy=ROOM))


def _read(
    source: str | Path | torch.nn.Module | Network,
    example_shape: tuple[int, ...] | None,
    outputs: Sequence[str] | None,
    stacked: bool,
) -> Network:
    outputs = None if outputs is None else arguments.words(outputs, "outputs")
    if isinstance(source, Network):
        if outputs is not None and outputs != [info.name for info in source.outputs]:
            raise UsageError("a network that is loaded has its outputs", remedy="give outputs=[…] to load_network")
        return source
    if isinstance(source, torch.nn.Module):
        return _of_module(exported(source, example_shape, stacked=stacked), outputs)
    if isinstance(source, str | Path):
        return _read_once(read_file(source), outputs)
    raise UsageError(
        f"a network cannot be made from {type(source).__name__}",
        remedy="give a path to an ONNX file or a torch.nn.Module",
    )


def _of_module(export: Export, outputs: list[str] | None) -> Network:
    tensors = export.runner.recorded.tensors
    other = next((name for name in outputs or () if name not in tensors), None)
    if other is not None:
        raise UsageError(
            f"the module has no tensor {other!r}", file=export.file.path, remedy=f"name one of {', '.join(tensors)}"
        )
    network = from_file(export.file, outputs)
    runner = replace(export.runner, chosen=[tensors.index(info.name) for info in network.outputs])
    return replace(network, reference=runner, module=export.identity, notes=(*export.notes, *network.notes))


def _read_once(file: OnnxFile, outputs: list[str] | None) -> Network:
    """Return the network of a file, as it was read before where its bytes and those beside it are the same.

    A network cannot be changed, so questions may share it, and what was compared once need not be compared again.
    """
    key = (file.path, identity(file.sha256, file.external), None if outputs is None else tuple(outputs))
    with _recent_lock:
        network = _recent.pop(key, None)
    if network is None:
        network = from_file(file, outputs)
    with _recent_lock:
        _recent[key] = network
        while sum(len(held.model) for held in _recent.values()) > RECENT:
            _recent.popitem(last=False)
    return network


def check(network: AnyNetwork, points: Tensor) -> None:
    """Compare a network at points (n, *input) with onnxruntime, and with the module where it is made from one."""
    if not isinstance(network, Network):
        for part, inputs in network.parts(points):
            check(part, inputs)
        return
    with _in_memory(network):
        cross_check(network, points)
        if not compare(network, points):
            raise ModelError(
                "the module gives no finite number at any point where it is compared with its graph",
                file=network.path,
                remedy="verify the module itself, on a region where it does",
            )


def is_from_module(network: AnyNetwork) -> bool:
    """Say whether there is a module that a network is compared with."""
    if isinstance(network, Network):
        return network.reference is not None
    return any(is_from_module(part) for part, _ in network.parts(torch.zeros(1, *network.input_shape).double()))


def points_of_module(network: AnyNetwork) -> int:
    """Return at how many points of one kind a module is compared with its graph."""
    return min(MOST, max(FEWEST, COMPARED // network.graph.entries))


def check_module(network: AnyNetwork, points: Tensor) -> None:
    """Compare a network that is made from a module with that module at points (n, *input); a mismatch is an error."""
    if not isinstance(network, Network):
        for part, inputs in network.parts(points):
            check_module(part, inputs)
        return
    with _in_memory(network):
        compare(network, points)


def from_file(file: OnnxFile, outputs: Sequence[str] | None = None) -> Network:
    """Make the network of a parsed file, not yet compared with onnxruntime."""
    reading = read_graph(file, outputs)
    held = {tensor.name for tensor in file.model.graph.initializer}
    ends = [value.name for value in (*file.model.graph.input, *file.model.graph.output) if value.name not in held]
    return Network(
        graph=reading.graph,
        trace=reading.trace,
        path=file.path,
        sha256=file.sha256,
        inputs=reading.inputs,
        outputs=reading.outputs,
        opset=file.opset,
        weight_dtypes=reading.weight_dtypes,
        notes=reading.notes,
        input_dtype=reading.input_dtype,
        model=reading.model,
        is_one_file=not file.external and ends == [info.name for info in (*reading.inputs[:1], *reading.outputs[:1])],
        external=file.external,
    )


def probes(network: AnyNetwork) -> Tensor:
    """Draw seeded points of [-1, 1] and [0, 1], and zero: (n, *input), fewer where the network is large."""
    shape = network.input_shape
    random = torch.rand(4, *shape, generator=generator(0), dtype=torch.float64)
    points = torch.cat([2.0 * random[2:] - 1.0, random[:2], torch.zeros(1, *shape, dtype=torch.float64)])
    return points[: max(1, PROBED // network.graph.entries)]
