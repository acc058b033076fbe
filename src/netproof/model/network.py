"""A network as the user gave it: the graph that is verified, and the file that it was read from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import onnx
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

from netproof.core.about import ModuleIdentity
from netproof.core.machine.allowance import unless_out_of_memory
from netproof.errors import ModelError
from netproof.model.graph import Graph
from netproof.model.origin.external import ExternalFile, identity
from netproof.model.origin.trace import Step, TensorInfo, Trace, together

if TYPE_CHECKING:
    from netproof.model.origin.torch_module import Runner

T = TypeVar("T")

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


def _options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what goes wrong is raised; it need not be logged as well
    return options


@dataclass(frozen=True, eq=False, repr=False)
class Network:
    graph: Graph  # float64, on the CPU
    trace: Trace  # how the graph came about
    path: str  # of the file that was read, for messages; "<torch module>" for a module
    sha256: str  # of the file as it is on disk
    inputs: tuple[TensorInfo, ...]  # in the file's order
    outputs: tuple[TensorInfo, ...]  # in the file's order, or as they were asked for
    opset: int
    weight_dtypes: tuple[str, ...]
    notes: tuple[str, ...]  # what the user should know about how the file was read
    input_dtype: str  # "float32", "float16" or "float64"
    model: bytes  # serialised ONNX, unpacked, all weights inside, without inputs that play no part
    is_one_file: bool = False  # whether its file alone says all of it, with its only input and its only output
    external: tuple[ExternalFile, ...] = ()  # the files beside it that its weights were drawn from
    reference: Runner | None = None  # of a torch module: the module itself
    module: ModuleIdentity | None = None  # of a torch module: which one it was when it was read
    agreed: set[str] = field(init=False, default_factory=set)  # what agreed with onnxruntime and is not compared again

    def __repr__(self) -> str:
        """Say where it is from and its shapes, without its weights."""
        return f"Network({self.path}, {list(self.input_shape)} -> {list(self.output_shape)})"

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the sessions of onnxruntime, which are opened again where they are needed."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_session", "_plain_session")}

    @property
    def identity(self) -> str:
        """Return what tells it from other networks: a hash over the file and its external files."""
        return identity(self.sha256, self.external)

    @property
    def models(self) -> dict[str, bytes]:
        """Return the ONNX model, by the name of a file for it."""
        return {"model": self.model}

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Return the shape of the graph's input: the file's own; of several inputs, that of the vector of all."""
        return self.graph.input.shape

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Return the shape of the graph's output: the file's own; of several outputs, that of the vector of all."""
        return self.graph.output.shape

    @property
    def input_name(self) -> str:
        """Return the name of the input; of several, all names."""
        return together(info.name for info in self.inputs)

    @cached_property
    def _session(self) -> onnxruntime.InferenceSession:
        return self._opened(self.model, _options())

    @cached_property
    def _plain_session(self) -> onnxruntime.InferenceSession:
        """Open a session in which every tensor of the trace is an output, and each node is run as the file has it."""
        model = onnx.ModelProto()
        model.ParseFromString(self.model)
        names = {name for step in self.trace.steps for name, _ in (*step.inputs, *step.outputs)}
        names.update(stored.tensor for stored in self.trace.constants)
        del model.graph.output[:]
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(names))
        options = _options()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.disable_prepacking", "1")  # it is asked a few times only
        return self._opened(model.SerializeToString(), options)

    def _opened(self, model: bytes, options: onnxruntime.SessionOptions) -> onnxruntime.InferenceSession:
        return self._asked(
            lambda: onnxruntime.InferenceSession(
                model,
                options,
                providers=["CPUExecutionProvider"],
                enable_fallback=0,  # it would print on stdout
            )
        )

    def feed(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Return by name what each of the file's inputs is at x: (*input_shape), in the file's order."""
        flat = np.asarray(x, dtype=self.input_dtype).reshape(-1)
        sizes = [math.prod(info.shape) for info in self.inputs]
        if len(flat) != sum(sizes):
            raise ValueError(f"{len(flat)} numbers are not an input of shape {self.input_shape}")
        ends = zip(self.inputs, sizes, itertools.accumulate(sizes), strict=True)
        return {info.name: flat[end - size : end].reshape(info.shape) for info, size, end in ends}

    def _run(self, session: onnxruntime.InferenceSession, names: Sequence[str] | None, x: np.ndarray) -> list[Any]:
        fed = self.feed(x)
        if len(fed) > 1:  # those that play no part are not in the session's model
            fed = {value.name: fed[value.name] for value in session.get_inputs()}
        return self._asked(lambda: session.run(names, fed))

    def tensors(self, x: np.ndarray, names: Sequence[str]) -> list[np.ndarray]:
        """Return these tensors of the file as onnxruntime computes them at x: (*input_shape), one node at a time."""
        return self._run(self._plain_session, list(names), x)

    def run_alone(self, step: Step, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run one node of the file at inputs of its own; return its tensors by name, these inputs among them."""
        model = onnx.ModelProto()
        model.ParseFromString(self.model)
        node = next(node for node in model.graph.node if step.outputs[0][0] in node.output)
        constants = sorted({name for name in node.input if name and name not in inputs})
        held = self.tensors(np.zeros(self.input_shape), [*inputs, *constants])
        taken = {name: inputs[name].astype(like.dtype) for name, like in zip(inputs, held, strict=False)}
        graph = onnx.helper.make_graph(
            [node],
            "step",
            [
                onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
                for name, x in taken.items()
            ],
            [onnx.ValueInfoProto(name=name) for name, _ in step.outputs],
            [onnx.numpy_helper.from_array(k, name) for name, k in zip(constants, held[len(taken) :], strict=True)],
        )
        model.graph.CopyFrom(graph)
        session = self._opened(model.SerializeToString(), _options())
        names = [name for name, _ in step.outputs]
        return {**taken, **dict(zip(names, self._asked(lambda: session.run(names, taken)), strict=True))}

    def replay(self, x: np.ndarray) -> np.ndarray:
        """Return onnxruntime's answer on the CPU to x: (*input_shape), in the file's own types; (*output_shape)."""
        found = [np.asarray(part) for part in self._run(self._session, None, x)]
        alone = len(found) == 1 and found[0].shape != ()
        output = found[0] if alone else np.concatenate([part.reshape(-1) for part in found])
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
            unless_out_of_memory(error)
            raise ModelError(
                f"onnxruntime cannot run it: {error}", file=self.path, remedy="check it with onnx.checker"
            ) from error
