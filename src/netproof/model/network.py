"""A network as the user gave it: the graph that is verified, and the file that answers for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors
from torch import Tensor

from netproof.errors import ModelError
from netproof.model.external import ExternalFile, identity
from netproof.model.graph import Graph

T = TypeVar("T")
Reference = Callable[[Tensor], Tensor]  # (batch, *input) -> (batch, *output)

_RUNTIME_ERRORS = (
    ort_errors.EPFail,
    ort_errors.Fail,
    ort_errors.InvalidArgument,
    ort_errors.InvalidGraph,
    ort_errors.InvalidProtobuf,
    ort_errors.NoModel,
    ort_errors.NoSuchFile,
    ort_errors.NotImplemented,
    ort_errors.RuntimeException,
    UnicodeDecodeError,  # a damaged name in the file
)


@dataclass(frozen=True, eq=False)
class Network:
    graph: Graph  # float64, on the CPU
    path: str  # of the file that was read, for messages; "<torch module>" for a module
    sha256: str  # of the file as it lies on disk
    input_shape: tuple[int, ...]  # the file's own, a symbolic batch counted as 1
    output_shape: tuple[int, ...]
    opset: int
    weight_dtypes: tuple[str, ...]
    notes: tuple[str, ...]  # what the user should know about how the file was read
    input_name: str
    input_dtype: str  # "float32", "float16" or "float64"
    model: bytes  # serialised ONNX, unpacked, all weights inside
    external: tuple[ExternalFile, ...] = ()  # the files beside it that its weights were drawn from
    reference: Reference | None = None  # of a torch module: the module itself

    @property
    def identity(self) -> str:
        """What tells it from other networks: a hash over the file and its external files."""
        return identity(self.sha256, self.external)

    @cached_property
    def _session(self) -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 4  # what goes wrong is raised; it need not be logged as well
        providers = ["CPUExecutionProvider"]
        return self._asked(
            lambda: onnxruntime.InferenceSession(
                self.model,
                options,
                providers=providers,
                enable_fallback=0,  # it would print on stdout
            )
        )

    def replay(self, x: np.ndarray) -> np.ndarray:
        """onnxruntime's answer on the CPU to x: (*input_shape), in the file's own types."""
        feed = {self.input_name: np.asarray(x, dtype=self.input_dtype).reshape(self.input_shape)}
        output = np.asarray(self._asked(lambda: self._session.run(None, feed)[0]))
        if output.shape != self.output_shape:
            raise ModelError(
                f"onnxruntime's output has shape {output.shape}, netproof's {self.output_shape}",
                file=self.path,
                remedy="please report the model: netproof must not be trusted on it",
            )
        return output

    def _asked(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except _RUNTIME_ERRORS as error:
            raise ModelError(
                f"onnxruntime cannot run it: {error}", file=self.path, remedy="check it with onnx.checker"
            ) from error
