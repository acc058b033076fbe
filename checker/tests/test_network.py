"""Affine operators: the adjoint is the transpose of forward, the magnitude is |W|."""

from __future__ import annotations

import numpy as np
import pytest

from npcheck.bound import Ranges
from npcheck.errors import Refused
from npcheck.network import Affine, Convolution, Input, Linear, Network, Node, Relu, Scale, Sum, Take, Windows
from npcheck.onnx_file import read_network
from npcheck.ranges import interval, start
from test_onnx_file import model, node

RNG = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def convolution(shape: tuple[int, ...], image: tuple[int, int], group: int = 1, **how: tuple[int, ...]) -> Convolution:
    windows = Windows(image, shape[2:], **how)  # type: ignore[arg-type]
    return Convolution(normal(*shape), windows, group=group, bias=normal(shape[0]))


OPS: dict[str, Affine] = {
    "linear": Linear(normal(3, 5), bias=normal(3)),
    "linear copies": Linear(normal(3, 4), copies=2, bias=normal(6)),
    "convolution": convolution((2, 3, 2, 2), (4, 5)),
    "strided": convolution((2, 1, 3, 2), (5, 4), strides=(2, 3), pads=(1, 0, 2, 1)),
    "dilated": convolution((3, 2, 2, 2), (5, 6), dilations=(2, 3), pads=(0, 1, 1, 0)),
    "grouped": convolution((4, 2, 2, 1), (3, 3), group=2, pads=(1, 1, 1, 1)),
    "depthwise": convolution((3, 1, 2, 2), (3, 3), group=3),
    "only padding": convolution((1, 1, 1, 1), (1, 1), pads=(2, 2, 2, 2), strides=(2, 2)),
    "gaps": convolution((1, 1, 1, 1), (4, 4), strides=(3, 3)),
    "scale": Scale(normal(4), bias=normal(4)),
    "sum": Sum((1, -1, 1), 3),
    "take": Take(np.array([2, 0, 3]), (4,)),
    "take padded": Take(np.array([-1, 2, -1, 0]), (2, 1), bias=normal(4)),
    "take repeated": Take(np.array([4, 1, 1, -1, 4, 4]), (2, 3)),
}


def dense(op: Affine) -> np.ndarray:
    """Return W, from unit vectors."""
    units = np.eye(sum(op.sizes))
    return op.forward(np.split(units, np.cumsum(op.sizes)[:-1], axis=1)).T


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
def test_products_are_those_of_one_matrix(op: Affine) -> None:
    matrix = dense(op)
    assert matrix.shape == (op.size, sum(op.sizes))
    points = normal(4, sum(op.sizes))
    parts = np.split(points, np.cumsum(op.sizes)[:-1], axis=1)
    np.testing.assert_allclose(op.forward(parts), points @ matrix.T, atol=1e-12)
    coef = normal(4, op.size)
    found = op.adjoint(coef)
    assert [part.shape for part in found] == [(4, size) for size in op.sizes]
    np.testing.assert_allclose(np.concatenate(found, axis=1), coef @ matrix, atol=1e-12)
    sizes = [np.abs(part) for part in parts]
    np.testing.assert_allclose(op.magnitude(sizes), np.abs(points) @ np.abs(matrix).T, atol=1e-12)


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
def test_terms_are_enough(op: Affine) -> None:
    used = dense(op) != 0
    assert op.terms >= max(used.sum(axis=0).max(), used.sum(axis=1).max())


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
def test_an_empty_batch_is_no_error(op: Affine) -> None:
    assert op.forward([np.zeros((0, size)) for size in op.sizes]).shape == (0, op.size)
    assert op.adjoint(np.zeros((0, op.size)))[0].shape == (0, op.sizes[0])


def test_a_convolution_is_the_sum_over_its_window() -> None:
    op = convolution((1, 2, 2, 2), (3, 3), pads=(1, 0, 0, 0))
    kernel = op.taps[:, :, 0, 0].transpose(2, 0, 1)
    image = normal(2, 3, 3)
    padded = np.pad(image, ((0, 0), (1, 0), (0, 0)))
    expected = [(kernel * padded[:, i : i + 2, j : j + 2]).sum() for i in range(3) for j in range(2)]
    np.testing.assert_allclose(op.forward([image.reshape(1, -1)])[0], expected, atol=1e-12)


@pytest.mark.parametrize("weight", [np.inf, np.nan, -np.inf, 2.0**101])
def test_wild_weights_are_refused(weight: float) -> None:
    with pytest.raises(Refused, match="not a finite number"):
        Linear(np.array([[weight]]))
    with pytest.raises(Refused, match="not a finite number"):
        Scale(np.ones(1), bias=np.array([weight]))


def test_windows_that_do_not_fit_are_refused() -> None:
    with pytest.raises(Refused, match="does not fit"):
        Windows((2, 2), (3, 1))
    with pytest.raises(Refused, match="does not fit"):
        Convolution(normal(2, 1, 1, 1), Windows((2, 2), (1, 2)))


def test_picking_outside_is_refused() -> None:
    for index in ([3], [-2]):
        with pytest.raises(Refused, match="lies outside"):
            Take(np.array(index), (3,))


def test_a_network_has_values_and_relus() -> None:
    nodes = (
        Node(Input(), (), 2, "x"),
        Node(Linear(np.array([[1.0, -1.0], [2.0, 0.0]]), bias=np.array([0.0, 1.0])), (0,), 2, "h"),
        Node(Relu(), (1,), 2, "z"),
        Node(Sum((1, 1), 2), (2, 2), 2, "twice"),
    )
    network = Network(nodes)
    assert network.relus == (2,)
    np.testing.assert_array_equal(network.values(np.array([[1.0, 3.0]]))[-1], [[0.0, 6.0]])


def test_nodes_that_do_not_fit_are_refused() -> None:
    first = Node(Input(), (), 2, "x")
    for wrong in (
        Node(Relu(), (0,), 3, "size"),
        Node(Relu(), (1,), 2, "itself"),
        Node(Relu(), (-1,), 2, "behind"),
        Node(Input(), (), 2, "second input"),
        Node(Sum((1, 1), 2), (0,), 2, "operands"),
    ):
        with pytest.raises(Refused, match=wrong.name):
            Network((first, wrong))


def ranges_after(network: Network, low: np.ndarray, high: np.ndarray) -> Ranges:
    ranges = start(network, low[None], high[None])
    for place in range(1, len(network.nodes)):
        ranges.lower[place], ranges.upper[place] = interval(network, place, ranges)
    return ranges


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("largest", [False, True])
def test_an_extreme_has_the_ends_of_what_it_is_of(largest: bool, swapped: bool) -> None:
    """Halves of the input are a and b; by its parts alone their extreme is wider, and another sum stays as wide."""
    halves = [Node(Take(np.arange(4) + side, (8,)), (0,), 4, "half") for side in (0, 4)]
    less = Node(Sum((1, -1), 4), (1, 2), 4, "a − b")
    own, sign = (2, 1) if largest else (1, -1)
    inputs, signs = ((4, own), (1, 1)) if swapped and largest else ((own, 4), (1, sign))
    nodes = [
        Node(Input(), (), 8, "x"),
        *halves,
        less,
        Node(Relu(), (3,), 4, "relu"),
        Node(Sum(signs, 4), inputs, 4, "y"),
    ]
    network = Network(tuple(nodes))
    low = normal(8)
    high = low + np.abs(normal(8))
    ranges = ranges_after(network, low, high)
    pick = np.maximum if largest else np.minimum
    assert network.extremes == {5: (largest, 1, 2)}
    assert ranges.lower[5].tolist() == [pick(low[:4], low[4:]).tolist()]
    assert ranges.upper[5].tolist() == [pick(high[:4], high[4:]).tolist()]
    for other in (Node(Sum((1, -sign), 4), (own, 4), 4, "y"), Node(Sum((1, sign), 4), (3 - own, 4), 4, "y")):
        assert not Network((*nodes[:5], other)).extremes


def test_entries_that_are_moved_keep_their_ends_and_zeros_stay_zeros() -> None:
    low, high = np.array([0.0, -1.0, 0.3]), np.array([0.0, 0.1, 0.3])
    moved = Node(Take(np.array([2, -1, 0, 1]), (3,)), (0,), 4, "moved")
    zeros = Node(Take(np.array([0, 0, 0, 1]), (3,)), (0,), 4, "zeros")
    nodes = (Node(Input(), (), 3, "x"), moved, zeros, Node(Sum((1, -1), 4), (1, 2), 4, "less"))
    ranges = ranges_after(Network(nodes), low, high)
    assert (ranges.lower[1].tolist(), ranges.upper[1].tolist()) == ([[0.3, 0.0, 0.0, -1.0]], [[0.3, 0.0, 0.0, 0.1]])
    assert ranges.lower[3][0, 1] == ranges.upper[3][0, 1] == 0.0
    assert ranges.lower[3][0, 0] < 0.3 < ranges.upper[3][0, 0]  # 0.3 − 0 is rounded as any sum is


def test_a_max_pool_is_within_its_image() -> None:
    """Where windows reach into the padding too, and a part of the image is 0, as behind a ReLU that is off."""
    low, high = normal(2, 4, 5), np.abs(normal(2, 4, 5))
    low[:, :2], high[:, :2] = 0.0, 0.0
    graph = model([node("MaxPool", ["x"], kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[1, 2])], [1, 2, 4, 5])
    network = read_network(graph.SerializeToString())
    ranges = ranges_after(network, low.reshape(-1), (low + high).reshape(-1))
    lower, upper = (side[-1].reshape(2, 4, 3) for side in (ranges.lower, ranges.upper))
    for channel, row, column in np.ndindex(2, 4, 3):
        window = channel, slice(max(0, row - 1), row + 2), slice(2 * column, 2 * column + 2)
        assert lower[channel, row, column] == low[window].max()
        assert upper[channel, row, column] == (low + high)[window].max()
