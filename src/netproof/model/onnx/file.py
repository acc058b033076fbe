"""From a path to a parsed ONNX model, with one clear line for everything that can be wrong with the file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from netproof.core.files import read_bounded
from netproof.core.machine.allowance import unless_out_of_memory
from netproof.errors import ModelError
from netproof.model.onnx.external import draw_in, parse_proto
from netproof.model.onnx.schema import STANDARD
from netproof.model.origin.constant import Constant
from netproof.model.origin.external import ExternalFile, model_data

OPSETS = range(7, onnx.defs.onnx_opset_version() + 1)
FLOATS = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.FLOAT16: "float16",
    onnx.TensorProto.DOUBLE: "float64",
}
INTEGERS = {
    onnx.TensorProto.BOOL,
    onnx.TensorProto.INT8,
    onnx.TensorProto.INT16,
    onnx.TensorProto.INT32,
    onnx.TensorProto.INT64,
    onnx.TensorProto.UINT8,
    onnx.TensorProto.UINT16,
    onnx.TensorProto.UINT32,
}


@dataclass(frozen=True, eq=False)
class OnnxFile:
    model: onnx.ModelProto
    data: bytes  # the model, unpacked and with all weights inside; onnxruntime reads it for the replay
    path: str
    sha256: str  # of the file as it is on disk
    opset: int  # of ONNX's own operators; 0 where the model has none of them
    notes: tuple[str, ...] = ()
    external: tuple[ExternalFile, ...] = ()

    @cached_property
    def masks(self) -> bool:
        """Say whether a constant may hold −∞: a mask of scores may, and is refused where anything else reads it."""
        return any(node.op_type in ("Softmax", "Attention") for node in self.model.graph.node)


def read_file(path: str | Path) -> OnnxFile:
    """Read and parse `path`; a name without `.gz` finds the file with it."""
    found = _find(Path(path))
    try:
        raw = read_bounded(found)
    except OSError as error:
        raise ModelError(
            f"cannot be read: {error.strerror}", file=str(found), remedy="check its permissions"
        ) from error
    if not raw:
        raise ModelError("the file is empty", file=str(found), remedy="export the model again")
    return parse(model_data(raw, str(found)), str(found), hashlib.sha256(raw).hexdigest())


def _find(path: Path) -> Path:
    packed = path.with_name(path.name + ".gz") if path.name else path
    try:
        if path.is_dir():
            raise ModelError("is a directory, not a model", file=str(path), remedy="name the .onnx file in it")
        if not path.is_file() and packed.is_file():
            return packed
        if path.exists():
            return path
    except (OSError, ValueError) as error:  # a name too long, or with a NUL in it
        raise ModelError(f"not a usable path: {error}", file=str(path), remedy="check the path") from error
    raise ModelError("no such file", file=str(path), remedy="check the path")


def parse(data: bytes, path: str, sha256: str) -> OnnxFile:
    """Parse a serialised model; external data are sought beside `path`."""
    model = parse_proto(data, path)
    # Without nodes, outputs are inputs or constants.
    if not (model.graph.node or model.graph.output) or not model.opset_import:
        raise ModelError("not an ONNX model: it has no graph", file=path, remedy="export the model again")
    _import_what_functions_do(model)
    opset = _opset(model, path)
    whole, external = draw_in(model, path)
    if any(node.domain not in STANDARD for node in model.graph.node) and model.functions:
        model = _written_out(model, path)
        whole = bytes(model.SerializeToString())
    if not external:
        return OnnxFile(model, data if whole is None else whole, path, sha256, opset)
    assert whole is not None
    names = ", ".join(Path(file.path).name for file in external)
    return OnnxFile(model, whole, path, sha256, opset, (f"weights lie beside the model, in {names}",), external)


def _written_out(model: onnx.ModelProto, path: str) -> onnx.ModelProto:
    """Return the model with the calls of its own functions replaced by their nodes, as onnxruntime does too."""
    import onnx.inliner

    try:
        return onnx.inliner.inline_local_functions(model)
    except Exception as error:  # onnx raises whatever its C++ code does
        unless_out_of_memory(error)
        raise ModelError(
            f"its functions cannot be written out: {error}", file=path, remedy="inline them with onnx.inliner"
        ) from error


def _import_what_functions_do(model: onnx.ModelProto) -> None:
    """Import the standard opset where the model's own functions alone do: their nodes will be the model's."""
    if any(entry.domain in STANDARD for entry in model.opset_import):
        return
    versions = {entry.version for one in model.functions for entry in one.opset_import if entry.domain in STANDARD}
    if len(versions) == 1:
        model.opset_import.append(onnx.helper.make_opsetid("", versions.pop()))


def _opset(model: onnx.ModelProto, path: str) -> int:
    versions = [entry.version for entry in model.opset_import if entry.domain in STANDARD]
    if not versions:
        if model.graph.node and not any(node.domain in STANDARD for node in model.graph.node):
            return 0  # nothing of the file is read by it, and its nodes are refused by name
        raise ModelError(
            "the model imports no standard opset",
            file=path,
            remedy='append onnx.helper.make_opsetid("", VERSION) to its opset_import',
        )
    if versions[0] not in OPSETS:
        raise ModelError(
            f"opset {versions[0]} is outside {OPSETS.start} to {OPSETS.stop - 1}",
            file=path,
            remedy="convert it with onnx.version_converter",
        )
    return int(versions[0])


_NAMES: dict[int, str] = {kind: name for name, kind in onnx.TensorProto.DataType.items()}


def type_name(kind: int) -> str:
    return _NAMES.get(kind, str(kind))


def dtype_name(kind: int) -> str:
    """Return an element type as numpy and torch name it."""
    return FLOATS.get(kind) or type_name(kind).lower()


def read_tensor(tensor: onnx.TensorProto, name: str, file: OnnxFile) -> Constant:
    """Read an initializer or attribute, exactly; floats become float64."""
    place = f"initializer {name!r}"
    kind = tensor.data_type
    if kind not in FLOATS and kind not in INTEGERS:
        raise ModelError(
            f"its type {type_name(kind)} is not supported",
            file=file.path,
            place=place,
            remedy="export the model with float32 weights",
        )
    try:
        value = numpy_helper.to_array(tensor)
    except ValueError as error:
        raise ModelError(
            f"its data do not fit its shape: {error}",
            file=file.path,
            place=place,
            remedy="export the model again",
        ) from error
    if kind in FLOATS:
        with np.errstate(invalid="ignore"):  # a signalling NaN, which is refused below
            value = value.astype(np.float64)
        if not (np.isfinite(value) | (np.isneginf(value) & file.masks)).all():
            raise ModelError(
                "holds NaN or infinity", file=file.path, place=place, remedy="repair or retrain the weights"
            )
        return Constant(value, dtype=getattr(torch, FLOATS[kind]))
    return Constant(value)
