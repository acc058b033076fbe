"""How the files of this folder were made, with netproof and its writer of certificates: `python make.py`.

Small random networks, and specifications that ask for a little less than the least value that was found.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
from onnx import helper

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from netproof import api  # noqa: E402

from certificates import dense, onnx_model, spec  # noqa: E402
from npcheck.onnx_file import read_network  # noqa: E402

RNG = np.random.default_rng(20)


def normal(*shape: int) -> np.ndarray:
    """Return weights of a usual size."""
    return (RNG.standard_normal(shape) * np.sqrt(2.0 / shape[-1])).astype(np.float32)


def layers(*sizes: int) -> bytes:
    """Return a network of matrices."""
    return dense(*[(normal(m, n), 0.1 * normal(m, 1)[:, 0]) for n, m in pairwise(sizes)])


def convolution() -> bytes:
    """Return an image of 5×5, a convolution, a residual block, and a matrix."""
    nodes = [
        helper.make_node("Reshape", ["x", "s"], ["i"]),
        helper.make_node("Conv", ["i", "k0", "c0"], ["h0"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["h0"], ["z0"]),
        helper.make_node("Conv", ["z0", "k1"], ["h1"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["h1", "z0"], ["h2"]),
        helper.make_node("Relu", ["h2"], ["z2"]),
        helper.make_node("Flatten", ["z2"], ["f"]),
        helper.make_node("Gemm", ["f", "w", "b"], ["y"], transB=1),
    ]
    constants = {"k0": normal(2, 1, 3, 3), "c0": normal(2, 1)[:, 0], "k1": 0.3 * normal(2, 2, 3, 3)}
    constants |= {"w": normal(2, 18), "b": normal(2, 1)[:, 0], "s": np.array([1, 1, 5, 5])}
    return onnx_model(nodes, 25, constants)


def least(model: bytes, lower: np.ndarray, upper: np.ndarray, row: np.ndarray) -> float:
    """Return the least value of a row that is found at random points, and around the best."""
    network = read_network(model)
    best, at = np.inf, (lower + upper) / 2
    for width in 0.5 ** np.arange(12):
        points = at + width * RNG.uniform(-1, 1, (4000, len(lower))) * (upper - lower)
        points = np.clip(points, lower, upper)
        values = network.values(points)[-1] @ row
        if values.min() < best:
            best, at = float(values.min()), points[values.argmin()]
    return best


def make(name: str, model: bytes, outputs: int, margin: float, radius: float) -> None:
    """Write a model, a specification and a certificate."""
    files = [HERE / f"{name}.{ending}" for ending in ("onnx", "vnnlib", "npcert")]
    count = read_network(model).nodes[0].size
    centre = RNG.uniform(-0.5, 0.5, count).round(2)
    lower, upper = (centre - radius).round(3), (centre + radius).round(3)
    rows, texts = np.eye(outputs)[0] - (np.eye(outputs)[1] if outputs > 1 else 0), ["Y_0", "(- Y_0 Y_1)"]
    bound = round(least(model, lower, upper, rows) - margin, 4)
    files[0].write_bytes(model)
    files[1].write_text(spec(lower, upper, outputs, f"(<= {texts[outputs > 1]} {bound})"))
    verdict = api.verify(str(files[0]), str(files[1]), timeout=20, device="cpu", threads=1, certificate=files[2])
    print(name, verdict.status, verdict.stats.domains, verdict.certificate)


if __name__ == "__main__":
    make("boxes", layers(2, 8, 8, 1), 1, 0.02, 0.7)
    make("neurons", layers(12, 14, 12, 2), 2, 0.15, 0.3)
    make("residual", convolution(), 2, 0.6, 0.3)
    make("wide", layers(10, 24, 1), 1, 0.2, 0.5)
