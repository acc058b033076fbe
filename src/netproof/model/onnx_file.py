"""From a path to a parsed ONNX model, with one clear line for everything that can be wrong with the file."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import numpy_helper

from netproof.errors import ModelError
from netproof.model.constant import Constant

OPSETS = range(8, 22)
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
    data: bytes  # the model as serialised, unpacked; onnxruntime reads it again for the replay
    path: str
    sha256: str  # of the file as it lies on disk
    opset: int

    @property
    def folder(self) -> Path:
        return Path(self.path).parent


def read_file(path: str | Path) -> OnnxFile:
    """Read and parse `path`; a name without `.gz` finds the file with it."""
    found = _find(Path(path))
    try:
        raw = found.read_bytes()
    except OSError as error:
        raise ModelError(
            f"cannot be read: {error.strerror}", file=str(found), remedy="check its permissions"
        ) from error
    if not raw:
        raise ModelError("the file is empty", file=str(found), remedy="export the model again")
    return parse(_unpacked(raw, found), str(found), hashlib.sha256(raw).hexdigest())


def _find(path: Path) -> Path:
    if path.is_dir():
        raise ModelError("is a directory, not a model", file=str(path), remedy="name the .onnx file in it")
    packed = path.with_name(path.name + ".gz")
    if not path.is_file() and packed.is_file():
        return packed
    if not path.exists():
        raise ModelError("no such file", file=str(path), remedy="check the path")
    return path


def _unpacked(raw: bytes, path: Path) -> bytes:
    if raw[:2] != b"\x1f\x8b":
        return raw
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise ModelError(
            f"the gzip file is damaged or cut short: {error}", file=str(path), remedy="copy the file again"
        ) from error


def parse(data: bytes, path: str, sha256: str) -> OnnxFile:
    """Parse a serialised model; `path` is for messages and for external data beside it."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise ModelError(
            "not an ONNX model, or one cut short",
            file=path,
            remedy="check with onnx.checker, or export again",
        ) from error
    if not model.graph.node or not model.opset_import:
        raise ModelError("not an ONNX model: it has no graph", file=path, remedy="export the model again")
    return OnnxFile(model, data, path, sha256, _opset(model, path))


def _opset(model: onnx.ModelProto, path: str) -> int:
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    if not versions:
        raise ModelError(
            "the model imports no standard opset", file=path, remedy="export with the default domain"
        )
    if versions[0] not in OPSETS:
        raise ModelError(
            f"opset {versions[0]} is outside {OPSETS.start} to {OPSETS.stop - 1}",
            file=path,
            remedy="convert it with onnx.version_converter",
        )
    return int(versions[0])


def read_tensor(tensor: onnx.TensorProto, name: str, file: OnnxFile) -> Constant:
    """An initializer or attribute, exactly; floats become float64."""
    place = f"initializer {name!r}"
    kind = tensor.data_type
    if kind not in FLOATS and kind not in INTEGERS:
        raise ModelError(
            f"its type {onnx.TensorProto.DataType.Name(kind)} is not supported",
            file=file.path,
            place=place,
            remedy="export the model with float32 weights",
        )
    try:
        value = numpy_helper.to_array(tensor, str(file.folder))
    except (OSError, onnx.checker.ValidationError) as error:
        raise ModelError(
            f"its external data cannot be read: {error}",
            file=file.path,
            place=place,
            remedy="keep the data file beside the model, or export with the weights inside",
        ) from error
    except ValueError as error:
        raise ModelError(
            f"its data do not fit its shape: {error}",
            file=file.path,
            place=place,
            remedy="export the model again",
        ) from error
    if kind in FLOATS:
        value = value.astype(np.float64)
        if not np.isfinite(value).all():
            raise ModelError(
                "holds NaN or infinity", file=file.path, place=place, remedy="repair or retrain the weights"
            )
    return Constant(value)
