"""The files that a certificate is about: those that were given where they say all, else files written of the question.

A file that is written says so in itself, so that a later run may replace it, and it is never put over one that does
not. What it has is what was searched: the model that the graph was read from, and the property with exact numbers.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper

from netproof.certificate.destination import MODEL, SPEC
from netproof.certificate.state import REFUSED, WITHOUT
from netproof.certificate.write import Subject
from netproof.core.files import find_file, sha256
from netproof.errors import UsageError
from netproof.model.combined import AnyNetwork
from netproof.model.evaluate import evaluate
from netproof.model.network import Network
from netproof.model.onnx.schema import ERRORS
from netproof.model.origin.trace import TensorInfo
from netproof.numerics import generator
from netproof.problem.property import Box, Property
from netproof.problem.vnnlib.writer import version_1

MARK = "written by netproof beside a certificate"
LEGEND = "; X_i: the inputs, Y_i: the outputs, in the order of the tensors' entries; what is asserted is a violation"
KEY = "netproof"  # of the mark among the metadata of an ONNX file
INPUTS, OUTPUTS = "netproof_inputs", "netproof_outputs"  # of a written model, where they are made of several
POINTS = 3  # of the input set, at which both readings of a network are compared
ALIKE = 1e-5  # of the largest value's size, by which they may differ: both are float64


@dataclass(frozen=True)
class Question:
    """What is searched, and the files that it came from, where it did."""

    network: AnyNetwork
    property: Property  # as it was asked, before anything is left out or moved
    model: Path | None = None
    spec: Path | None = None

    @classmethod
    def of(cls, model: Any, spec: Any, network: AnyNetwork, property: Property) -> Question:
        """Take what `verify` was given and what it made of that."""
        files = [Path(part) if isinstance(part, str | os.PathLike) else None for part in (model, spec)]
        return cls(network, property, *files)

    def model_in(self, folder: Path) -> Path:
        """Return the file of the network; it is written to the folder where no file says all of it."""
        network = self.network
        if not isinstance(network, Network):
            raise _none("it is about several networks or runs, or about the image of a box under a linear map")
        given = self.model or Path(network.path)
        if network.is_one_file and _is_still(given, network.sha256):
            return given
        return _write(folder / MODEL, _model(network))

    def spec_in(self, folder: Path) -> Path:
        """Return the file of the property; it is written to the folder where no file of VNN-LIB 1.0 says it."""
        if self.spec is not None and self.property.interface is None:
            return self.spec
        return _write(folder / SPEC, vnnlib(self.property).encode())


def check_alike(network: AnyNetwork, subject: Subject) -> None:
    """Raise UsageError where npcheck reads another function out of the file than was read here, at a few points.

    No proof rests on it. But a certificate that says nothing of what was asked should not be begun.
    """
    size = network.graph.input.size
    for region in subject.statement.regions[:1]:
        if len(region.lower) != size or subject.whole.nodes[0].size != size:
            return  # the question does not fit the network, which the search says
        share = torch.rand(POINTS, size, generator=generator(0), dtype=torch.float64).numpy()
        points = region.lower + share * (region.upper - region.lower)
        inputs = torch.from_numpy(points).reshape(POINTS, *network.graph.input.shape)
        ours = evaluate(network.graph, inputs)[0].flatten(1).numpy()
        theirs = subject.whole.values(points)[-1]
        finite = np.abs(ours[np.isfinite(ours)])
        away = ALIKE * (1.0 + finite.max(initial=0.0))
        if ours.shape != theirs.shape or not np.allclose(ours, theirs, rtol=0.0, atol=away, equal_nan=True):
            raise _none("npcheck reads another function out of the network's file; please report the model")


def vnnlib(property: Property) -> str:
    """Write a property as VNN-LIB 1.0; UsageError where that has no words for it."""
    disjuncts = property.disjuncts
    if not disjuncts:
        raise _none(f"nothing is a violation{f': {property.vacuous}' if property.vacuous else ''}")
    if property.map is not None:
        raise _none("VNN-LIB cannot say a linear image of a box")
    if len({disjunct.ball for disjunct in disjuncts}) > 1:
        raise _none("its cases lie in different balls")
    try:
        text = version_1(property, _hull([disjunct.box for disjunct in disjuncts]))
    except UsageError as error:
        raise _none(error.message) from None
    return f"; {MARK}\n{LEGEND}\n{text}"


def may_replace(path: Path) -> bool:
    """Say whether nothing is lost where a file of ours is put there."""
    if not os.path.lexists(path):
        return True
    try:
        if path.suffix == ".vnnlib":
            with path.open(encoding="utf-8", errors="replace") as file:
                return MARK in file.readline()
        metadata = onnx.load_model(path, load_external_data=False).metadata_props
        return any(entry.key == KEY and entry.value == MARK for entry in metadata)
    except (OSError, *ERRORS):  # a folder, or a file that is damaged: not ours
        return False


def _none(why: str) -> UsageError:
    return UsageError(f"{REFUSED}{why}", remedy=WITHOUT)


def _is_still(path: Path, hashed: str) -> bool:
    """Say whether the file is there as it was read."""
    file = find_file(path)
    return file is not None and sha256(file) == hashed


def _write(path: Path, content: bytes) -> Path:
    try:
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        said = f"the question cannot be written there: {error.strerror or error}"
        raise UsageError(said, file=str(path.parent), remedy="free the disk, or go elsewhere") from None
    return path


def _hull(boxes: Sequence[Box]) -> Box:
    """Return a box that holds all of them; the only one where there is but one."""
    several = list(dict.fromkeys(boxes))
    if len(several) == 1:
        return boxes[0]
    lower = tuple(map(min, *(box.lower for box in several)))
    upper = tuple(map(max, *(box.upper for box in several)))
    return Box(lower, upper)


def _model(network: Network) -> bytes:
    """Return the network's model with the mark, one input and one output: several are one vector, as they are read.

    The weights are in it, bit for bit.
    """
    model = onnx.ModelProto.FromString(network.model)
    if len(network.inputs) > 1:
        _join_inputs(model.graph, network)
    if len(network.outputs) > 1:
        _join_outputs(model.graph, network)
    elif not model.graph.output[0].HasField("type"):  # a tensor from inside
        model.graph.output[0].CopyFrom(_declared(network.outputs[0]))
    model.metadata_props.append(onnx.StringStringEntryProto(key=KEY, value=MARK))
    return bytes(model.SerializeToString(deterministic=True))


def _join_inputs(graph: onnx.GraphProto, network: Network) -> None:
    """Cut the inputs out of one vector."""
    read = {value.name for value in graph.input}
    nodes, start = [], 0
    for info in network.inputs:
        end = start + math.prod(info.shape)
        if info.name in read:
            part = f"{INPUTS}_{start}"
            numbers = (("starts", [start]), ("ends", [end]), ("axes", [0]), ("shape", list(info.shape)))
            names = [_constant(graph, f"{part}_{name}", values) for name, values in numbers]
            nodes.append(helper.make_node("Slice", [INPUTS, *names[:3]], [part]))
            nodes.append(helper.make_node("Reshape", [part, names[3]], [info.name]))
        start = end
    nodes += graph.node
    del graph.node[:], graph.input[:]
    graph.node.extend(nodes)
    graph.input.append(_declared(TensorInfo(INPUTS, (start,), network.input_dtype)))


def _join_outputs(graph: onnx.GraphProto, network: Network) -> None:
    """Put the outputs into one vector, one after the other."""
    shape = _constant(graph, f"{OUTPUTS}_shape", [-1])
    flat = [f"{OUTPUTS}_{place}" for place in range(len(network.outputs))]
    for info, name in zip(network.outputs, flat, strict=True):
        graph.node.append(helper.make_node("Reshape", [info.name, shape], [name]))
    graph.node.append(helper.make_node("Concat", flat, [OUTPUTS], axis=0))
    del graph.output[:]
    size = sum(math.prod(info.shape) for info in network.outputs)
    graph.output.append(_declared(TensorInfo(OUTPUTS, (size,), network.outputs[0].dtype)))


def _constant(graph: onnx.GraphProto, name: str, values: Sequence[int]) -> str:
    graph.initializer.append(numpy_helper.from_array(np.array(values, dtype=np.int64), name))
    return name


def _declared(info: TensorInfo) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(info.dtype))
    return helper.make_tensor_value_info(info.name, kind, info.shape)
