"""One node of a file on given arrays, by onnx's reference implementation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from netproof.model.onnx.context import Context
from netproof.model.onnx.folding.size import result_entries

# What the reference implementation raises where inputs do not fit.
_RAISED = (ValueError, LookupError, RuntimeError, TypeError, AttributeError, ArithmeticError, AssertionError)


def evaluate(c: Context, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    """Run one node on arrays in place of its inputs; None stands for an input that is left out."""
    there = [array for array in arrays if array is not None]
    try:
        c.claim([result_entries(c, there)])
        moved = _moved(c, there)
        with np.errstate(all="ignore"):  # sizes that overflow are refused, not warned of
            outputs = _reference(c, arrays) if moved is None else [moved]
    except _RAISED as error:
        c.refuse(f"its constant inputs do not fit: {error}", "export the model again")
    if any(np.asarray(output).dtype == object for output in outputs):
        c.refuse("its constant inputs have no numbers for a result", "export the model again")
    return [np.asarray(output) for output in outputs]


def _moved(c: Context, arrays: list[np.ndarray]) -> np.ndarray | None:
    """Compute by numpy what an exported `x.view(x.size(0), -1)` is made of; None for anything else.

    Nearly every model has that, and importing the reference implementation takes longer than reading the model.
    """
    if c.op == "Gather" and arrays[1].size:
        return np.take(arrays[0], arrays[1], axis=c.attr("axis", 0))
    if c.op == "Unsqueeze" and (axes := c.attr_or_input("axes", 1)):
        return np.expand_dims(arrays[0], tuple(axes))
    if c.op == "Concat" and (axis := c.attr("axis")) is not None:
        return np.concatenate(arrays, axis=axis)
    return None


def _reference(c: Context, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    from onnx.reference import ReferenceEvaluator

    names = [f"in{i}" if array is not None else "" for i, array in enumerate(arrays)]
    node = onnx.NodeProto()
    node.CopyFrom(c.proto)
    del node.input[:]
    node.input.extend(names)
    feeds = {name: array for name, array in zip(names, arrays, strict=True) if array is not None}
    declared = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), None)
        for name, array in feeds.items()
    ]
    results = [helper.make_tensor_value_info(name, 0, None) for name in node.output if name]
    graph = helper.make_graph([node], "constant", declared, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", c.opset)])
    return list(ReferenceEvaluator(model).run(None, feeds))
