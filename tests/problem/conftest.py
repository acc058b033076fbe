"""Tiny affine networks y = W x + b, as ONNX files that are loaded like any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from netproof.model.load import load_network
from netproof.model.network import Network

Affine = Callable[..., Network]


@pytest.fixture(scope="session")
def affine(tmp_path_factory: pytest.TempPathFactory) -> Affine:
    folder = tmp_path_factory.mktemp("models")
    number = count()

    def make(weight: Sequence[Sequence[float]], bias: Sequence[float] | None = None, dtype: str = "float32") -> Network:
        w = np.array(weight, dtype=dtype)
        b = np.zeros(len(w), dtype) if bias is None else np.array(bias, dtype=dtype)
        kind = helper.np_dtype_to_tensor_dtype(w.dtype)
        graph = helper.make_graph(
            [helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)],
            "affine",
            [helper.make_tensor_value_info("x", kind, [1, w.shape[1]])],
            [helper.make_tensor_value_info("y", kind, [1, w.shape[0]])],
            [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")],
        )
        path = folder / f"affine{next(number)}.onnx"
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 8
        onnx.save(model, path)
        return load_network(path)

    return make
