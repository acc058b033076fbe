"""MaxPool in every form, against onnxruntime: exact, or refused where a runtime and the standard differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from hinge_nets import Pooled, natively
from onnx import TensorProto
from torch import nn

from model.onnx_models import Model
from netproof.errors import UnsupportedOp
from netproof.model.evaluate import evaluate
from netproof.model.network import _RUNTIME_ERRORS, Network
from netproof.model.nonlinear import Relu
from netproof.model.onnx.operators.pools import Axis
from netproof.model.origin.cross_check import cross_check
from netproof.relax import without_lp_form
from support.both_ways import decided_both_ways

POOLS = {  # the pool, the numbers that it gives, the axes and the size of the image
    "plain": (nn.MaxPool2d(2), 8, 2, 5),
    "overlapping": (nn.MaxPool2d(3, stride=1), 8, 2, 5),
    "padded": (nn.MaxPool2d(3, stride=2, padding=1), 8, 2, 5),
    "dilated": (nn.MaxPool2d(2, stride=1, dilation=2), 8, 2, 5),
    "ceil": (nn.MaxPool2d(3, stride=2, ceil_mode=True), 8, 2, 5),
    "one-axis": (nn.MaxPool1d(2, stride=1), 6, 1, 5),
    "global": (nn.AdaptiveMaxPool2d(1), 2, 2, 3),
}


@pytest.mark.parametrize("name", POOLS)
def test_asked_both_ways(name: str, tmp_path: Path) -> None:
    pool, entries, axes, size = POOLS[name]
    shape = (1, 1, *(size,) * axes)
    centre = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    module, lower, upper = Pooled(pool, entries, axes), centre - 0.4, centre + 0.4
    known = natively(module, lower, upper)
    network = decided_both_ways(module, lower, upper, tmp_path, share=0.9, natively=known)
    assert without_lp_form(network.graph) is None


def test_global_max_pool_asked_both_ways(tmp_path: Path) -> None:
    """torch writes MaxPool for it."""
    model = Model((1, 1, 3, 3))
    model.add("Conv", "x", model.weights(3, 1, 2, 2), out="h").add("GlobalMaxPool", "h", out="g")
    path = model.add("Flatten", "g", out="f").add("Gemm", "f", model.weights(3, 1)).save(tmp_path / "net.onnx")
    width = torch.full((1, 1, 3, 3), 0.5)
    decided_both_ways(path, -width, width, tmp_path, share=0.9)


def pools(seed: int) -> Model:
    """A pool of one to three axes, any window, stride, pads, dilation, opset."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))

    def each(low: int, high: int) -> list[int]:
        return [int(v) for v in rng.integers(low, high, rank)]

    window, opset = each(1, 5), int(rng.choice([8, 10, 13, 18]))
    attributes = {"kernel_shape": window, "strides": each(1, 4)}
    if opset >= 10:
        attributes |= {"dilations": each(1, 3), "ceil_mode": int(rng.integers(2))}
    mode = rng.choice(["NOTSET", "pads", "SAME_UPPER", "SAME_LOWER", "VALID"])
    if mode == "pads":
        attributes["pads"] = [int(rng.integers(0, k)) for k in window + window]
    elif mode != "NOTSET":
        attributes["auto_pad"] = str(mode)
    return Model((1, 2, *each(1, 9)), opset).add("MaxPool", "x", **attributes)


def read_or_why(model: Model) -> Network | str:
    try:
        return model.network()
    except UnsupportedOp as error:
        return str(error)


def test_random_pools_equal_onnxruntime_or_are_refused() -> None:
    """Most are read; of those refused, onnxruntime refuses many too, and the rest say why."""
    read = 0
    for seed in range(250):
        model = pools(seed)
        try:
            session = onnxruntime.InferenceSession(model.proto().SerializeToString())
            point = np.random.default_rng(seed).normal(size=model.shape).astype(np.float32)
            (answer,) = session.run(None, {"x": point})
        except _RUNTIME_ERRORS:
            continue
        network = read_or_why(model)
        if isinstance(network, str):
            assert any(reason in network for reason in ("not fit", "padding altogether", "differently", "size zero"))
            continue
        value, error = evaluate(network.graph, torch.from_numpy(point).double()[None])
        assert value[0].shape == answer.shape
        assert bool(((value[0] - torch.from_numpy(answer)).abs() <= error[0] + 1e-6).all())
        cross_check(network, torch.from_numpy(point).double()[None])
        read += 1
    assert read >= 100


def test_each_halving_is_one_layer_and_no_entry_is_compared_twice() -> None:
    network = Model((1, 1, 8, 8)).add("MaxPool", "x", kernel_shape=[4, 4], strides=[4, 4]).network()
    relus = [node for node in network.graph.nodes if isinstance(node.op, Relu)]
    assert [node.size for node in relus] == [32, 16, 8, 4]  # 4 windows of 16 entries: 15 comparisons each


def test_windows_at_the_border_have_their_own_entries_only() -> None:
    axis = Axis(size=5, window=3, stride=2, dilation=1, before=1, after=1, ceil=False)
    assert axis.entries() == [[0, 1], [1, 2, 3], [3, 4]]


def test_the_last_window_of_ceil_starts_inside() -> None:
    assert Axis(size=4, window=1, stride=2, dilation=1, before=0, after=0, ceil=True).count == 2
    assert Axis(size=5, window=2, stride=2, dilation=1, before=0, after=0, ceil=True).count == 3


def reading_indices() -> Model:
    model = Model((1, 1, 4, 4)).add("MaxPool", "x", out=["m", "i"], kernel_shape=[2, 2])
    return model.add("Cast", "i", to=TensorProto.FLOAT, out="f").add("Add", "m", "f")


def pool(shape: tuple[int, ...], **attributes: Any) -> Model:
    return Model(shape).add("MaxPool", "x", **attributes)


REFUSED = {
    "indices": reading_indices,
    "all-padding": lambda: pool((1, 1, 1), kernel_shape=[2], pads=[1, 1], strides=[2], dilations=[2]),
    "same-dilated": lambda: pool((1, 1, 6), kernel_shape=[3], dilations=[2], auto_pad="SAME_UPPER"),
    "valid-ceil": lambda: pool((1, 1, 6), kernel_shape=[3], strides=[2], ceil_mode=1, auto_pad="VALID"),
    "too-large": lambda: pool((1, 1, 3), kernel_shape=[4]),
    "window": lambda: pool((1, 1, 3, 3), kernel_shape=[2]),
    "stride": lambda: pool((1, 1, 3), kernel_shape=[2], strides=[0]),
    "auto-pad": lambda: pool((1, 1, 3), kernel_shape=[2], auto_pad="SOMEHOW"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    with pytest.raises(UnsupportedOp, match="MaxPool") as caught:
        REFUSED[name]().network()
    assert "\n" not in str(caught.value)


def test_indices_that_nothing_reads_are_left_alone() -> None:
    network = Model((1, 1, 4, 4)).add("MaxPool", "x", out=["y", "i"], kernel_shape=[2, 2]).network()
    assert network.graph.output.shape == (1, 1, 3, 3)
