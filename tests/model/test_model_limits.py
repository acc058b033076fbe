"""A small file may ask for much: it is refused before any memory is taken, in one line."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper
from onnx_models import Model, ints, small_net

from netproof.core import files
from netproof.core.limits import LARGEST
from netproof.errors import ModelError, NetproofError
from netproof.model.load import load_network
from netproof.model.onnx.reader import unsupported_nodes

HUGE = 1 << 40
ONE = np.ones((1, 1, 2, 2), np.float32)


def image(opset: int = 13) -> Model:
    return Model((1, 1, 4, 4), opset)


def shaped(*shape: int) -> Model:
    return Model((1, 4)).add("ConstantOfShape", ints(*shape), out="c").add("Add", "x", "c")


def many_layers() -> Model:
    """Each constant is within the limit, all of them together are not."""
    model = Model((1, 4)).add("ConstantOfShape", ints(LARGEST // 4), out="k0")
    for i in range(8):
        model.add("Neg", f"k{i}", out=f"k{i + 1}")
    return model.add("ReduceSum", "x", ints(1), keepdims=0, out="s").add("Add", "s", "k8")


def outer() -> Model:
    """(n, 1) + (1, n)."""
    column = np.ones((1 << 14, 1), np.float32)
    return Model((1, 4)).add("Add", column, column.T, out="c").add("Add", "x", "c")


BOMBS: dict[str, Callable[[], Model]] = {
    "constant-of-shape": lambda: shaped(HUGE),
    "constant-of-shape-24-gb": lambda: shaped(3_000_000_000),
    "constant-of-shape-overflow": lambda: shaped(1 << 33, 1 << 61),
    "constant-of-shape-empty": lambda: shaped(0, 1 << 62),
    "constant-of-shape-negative": lambda: shaped(-1, 4),
    "constant-of-shape-axes": lambda: shaped(*[1] * 100),
    "together": many_layers,
    "outer": outer,
    "range": lambda: Model((1, 4)).add("Range", *map(np.int64, (0, HUGE, 1)), out="r").add("Gather", "x", "r", axis=1),
    "tile": lambda: Model((1, 4)).add("Tile", np.ones(4, np.float32), ints(HUGE), out="c").add("Add", "x", "c"),
    "expand-constant": lambda: (
        Model((1, 4)).add("Expand", np.ones(4, np.float32), ints(HUGE, 4), out="c").add("Add", "x", "c")
    ),
    "expand": lambda: Model((1, 4)).add("Expand", "x", ints(HUGE, 4)),
    "pad-constant": lambda: (
        Model((1, 4)).add("Pad", np.ones(4, np.float32), ints(HUGE, 0), out="c").add("Add", "x", "c")
    ),
    "pad": lambda: Model((1, 4)).add("Pad", "x", ints(0, 1 << 62, 0, 1 << 62)),
    "pad-rows": lambda: Model((1, 4)).add("Pad", "x", ints(LARGEST // 4, 0, 0, 3)),
    "gather": lambda: (
        Model((1, 4)).add("Gather", np.ones((2, 1 << 16), np.float32), np.zeros(1 << 12, np.int64), out="c")
    ).add("Add", "x", "c"),
    "gather-list": lambda: (
        Model((1, 4)).add("ConstantOfShape", ints(1 << 23), out="c").add("Cast", "c", to=7, out="i")
    ).add("Reshape", "x", "i"),
    "conv-pads": lambda: image().add("Conv", "x", ONE, pads=[1 << 62] * 4),
    "conv-uneven-pads": lambda: image().add("Conv", "x", ONE, pads=[1 << 62, 0, 0, 0]),
    "conv-large-pads": lambda: image().add("Conv", "x", ONE, pads=[1 << 20] * 4),
    "conv-dilations": lambda: image().add("Conv", "x", ONE, dilations=[1 << 62] * 2),
    "conv-transpose-strides": lambda: image().add("ConvTranspose", "x", ONE, strides=[1 << 62] * 2),
    "conv-transpose-large": lambda: image().add("ConvTranspose", "x", ONE, strides=[1 << 20] * 2),
    "average-pool-kernel": lambda: image().add("AveragePool", "x", kernel_shape=[HUGE, 2]),
    "average-pool-windows": lambda: image().add("AveragePool", "x", kernel_shape=[3000] * 2, pads=[2990] * 4),
    "range-by-zero": lambda: Model((1, 4)).add("Range", *map(np.int64, (0, 4, 0)), out="r").add("Gather", "x", "r"),
    "tile-overflow": lambda: (
        Model((1, 4)).add("Tile", np.ones((1, 4), np.float32), ints(1 << 62, -(1 << 62)), out="c").add("Add", "x", "c")
    ),
    "split": lambda: Model((1, 4), 18).add("Split", "x", axis=1, num_outputs=1 << 62, out=("y", "z")),
    "input": lambda: Model((1, HUGE)).add("Relu", "x"),
    "input-overflow": lambda: Model((1, 1 << 62, 1 << 62)).add("Relu", "x"),
}


@contextmanager
def little_memory() -> Iterator[None]:
    """What numpy and Python take within stays at the limit, a quarter of which "together" makes at a time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 8 * LARGEST + (64 << 20)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_that_asks_for_too_much(tmp_path: Path, name: str) -> None:
    path = BOMBS[name]().save(tmp_path / "net.onnx")
    assert path.stat().st_size < 1 << 20
    with little_memory(), pytest.raises(ModelError) as caught:
        load_network(path)
    line = str(caught.value)
    assert path.name in line
    assert "\n" not in line
    assert line.endswith(")")
    if "input" not in name:
        assert unsupported_nodes(path), "inspect says so too"


def test_what_the_output_does_not_need_is_not_run(tmp_path: Path) -> None:
    """onnxruntime would make the constant, were it still there."""
    model = small_net().add("ConstantOfShape", ints(3_000_000_000), out="dead").save(tmp_path / "net.onnx")
    network = load_network(model)
    assert b"ConstantOfShape" not in network.model
    assert network.replay(np.zeros(4)).shape == (1, 3)


def test_a_large_network_is_compared_at_fewer_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr("netproof.model.load.cross_check", lambda network, points: seen.append(len(points)))
    monkeypatch.setattr("netproof.model.load.PROBED", 100)
    for size in (4, 40, 400):
        load_network(Model((1, size)).add("Relu", "x").save(tmp_path / "net.onnx"))
    assert seen == [5, 1, 1]


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(files, "LARGEST_FILE", 1 << 20)
    return 1 << 20


def test_a_packed_file_that_unpacks_without_end(tmp_path: Path, small_limit: int) -> None:
    path = tmp_path / "net.onnx.gz"
    path.write_bytes(gzip.compress(bytes(64 * small_limit)))
    tracemalloc.start()
    with pytest.raises(ModelError, match="it unpacks to more than 1 MiB"):
        load_network(path)
    assert tracemalloc.get_traced_memory()[1] < 8 * small_limit
    tracemalloc.stop()


def test_a_file_that_is_too_large(tmp_path: Path, small_limit: int) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(bytes(small_limit + 1))
    with pytest.raises(ModelError, match="it has more than 1 MiB"):
        load_network(path)
    with pytest.raises(ModelError, match="it has more than 1 MiB"):
        load_network("/dev/zero")


@pytest.mark.parametrize("name", ["\0.onnx", "x" * 300 + ".onnx"])
def test_a_name_that_no_file_can_have(name: str) -> None:
    with pytest.raises(ModelError, match=r"not a usable path|no such file"):
        load_network(name)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("attribute", "build"),
    [
        ("value_float", lambda bad: Model((1, 4)).add("Constant", value_float=bad, out="c").add("Add", "x", "c")),
        ("value_floats", lambda bad: Model((1, 4)).add("Constant", value_floats=[1.0, bad, 1.0, 1.0], out="c")),
        ("alpha", lambda bad: Model((1, 4)).add("Gemm", "x", np.eye(4, dtype=np.float32), alpha=bad)),
        ("beta", lambda bad: Model((1, 4)).add("Gemm", "x", *[np.eye(4, dtype=np.float32)] * 2, beta=bad)),
        ("epsilon", lambda bad: image().add("BatchNormalization", "x", *[np.ones(1, np.float32)] * 4, epsilon=bad)),
        ("alpha", lambda bad: Model((1, 4)).add("LeakyRelu", "x", alpha=bad)),
    ],
)
def test_attributes_that_are_no_numbers(
    tmp_path: Path, attribute: str, build: Callable[[float], Model], bad: float
) -> None:
    model = build(bad)
    if "y" not in model.nodes[-1].output:
        model.add("Add", "x", "c")
    with pytest.raises(ModelError, match=f"attribute '{attribute}' holds NaN or infinity"):
        load_network(model.save(tmp_path / "net.onnx"))


def test_counts_of_pooling_windows_are_those_of_their_entries(tmp_path: Path) -> None:
    """Windows that reach over the edge, dilated ones too, divide by what lies inside."""
    for dilation, pads, opset in (([1, 1], [1, 2, 2, 1], 13), ([2, 1], [1, 1, 2, 0], 19), ([2, 3], [2, 2, 2, 2], 19)):
        model = Model((1, 1, 7, 9), opset)
        model.add("AveragePool", "x", kernel_shape=[3, 3], strides=[2, 1], pads=pads, dilations=dilation, out="h")
        if opset < 19:
            del model.nodes[0].attribute[:]
            model.nodes[0].attribute.extend(
                helper.make_attribute(name, value)
                for name, value in (("kernel_shape", [3, 3]), ("strides", [2, 1]), ("pads", pads))
            )
        load_network(model.add("Relu", "h").save(tmp_path / "net.onnx"))


def test_every_error_is_of_the_family(tmp_path: Path) -> None:
    """A tensor that claims more than it has."""
    proto = small_net().proto()
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((2, 2), np.float32), "c0"))
    proto.graph.initializer[0].dims[:] = [1 << 40, 1 << 40]
    path = tmp_path / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(NetproofError):
        load_network(path)
