"""Time `netproof.certify` against a loop of `netproof.verify`: same images, same threads, the network loaded once.

    python benchmarks/certify.py [--images 200] [--eps 0.02 0.04 0.06] [--model digits-conv] [--timeout 20]

needs scikit-learn. The images are the digits that the bundled networks were not trained on. Exits with 1 where a
verdict is another or lost, and with --at-least where the loop is not so many times slower over all radii.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import netproof
from netproof.demo import copy_data

TEST = 360  # of scikit-learn's digits, the last ones
WORDS = {"unsat": ("proved",), "sat": ("broken", "misread")}


def images(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return test images (count, 1, 8, 8) with pixels in [0, 1], and their labels."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    X = (digits.images[-TEST:] / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    return X[:count], digits.target[-TEST:][:count]


def loop(network: netproof.Network, X: np.ndarray, y: np.ndarray, eps: float, asked: dict) -> list[str]:
    """Verify one image after the other."""
    regions = (netproof.linf_ball(x, eps, clip=(0, 1)) for x in X)
    pairs = zip(regions, y.tolist(), strict=True)
    return [str(netproof.verify(network, region, label=label, **asked).status) for region, label in pairs]


def compare(
    network: netproof.Network, X: np.ndarray, y: np.ndarray, eps: float, asked: dict
) -> tuple[float, float, int]:
    """Print a line for one radius; return the seconds of the loop and of certify, and how many verdicts contradict."""
    began = time.perf_counter(), time.process_time()
    found = netproof.certify(network, X, y, eps, clip=(0, 1), **asked)
    middle = time.perf_counter(), time.process_time()
    verdicts = loop(network, X, y, eps, asked)
    end = time.perf_counter(), time.process_time()
    pairs = list(zip(verdicts, (str(image.status) for image in found), strict=True))
    wrong = sum(verdict in WORDS and status != "open" and status not in WORDS[verdict] for verdict, status in pairs)
    lost = sum(verdict in WORDS and status == "open" for verdict, status in pairs)
    gained = sum(verdict not in WORDS and status != "open" for verdict, status in pairs)
    together, one_by_one = middle[0] - began[0], end[0] - middle[0]
    work = (end[1] - middle[1]) / (middle[1] - began[1])
    print(
        f"eps {eps:<6g} {found.line()}\n"
        f"  certify {together:.2f} s, loop {one_by_one:.2f} s: {one_by_one / together:.1f} times"
        f" ({work:.1f} by processor time); contradictions {wrong}, lost {lost}, gained {gained}",
        flush=True,
    )
    return one_by_one, together, wrong + lost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--eps", type=float, nargs="+", default=[0.02, 0.04, 0.06])
    parser.add_argument("--model", default="digits-conv", help="a bundled network, or a path")
    parser.add_argument("--timeout", type=float, default=20.0, help="seconds per image")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--at-least", type=float, default=0.0, help="how many times faster certify must be")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy_data(Path(folder))
        path = Path(given.model) if given.model.endswith(".onnx") else Path(folder, "onnx", f"{given.model}.onnx")
        network = netproof.load_network(path)
    X, y = images(given.images)
    asked = {"timeout": given.timeout, "threads": given.threads, "device": given.device}
    netproof.certify(network, X[:8], y[:8], given.eps[0], **asked)  # what is compiled or opened once counts for neither
    loop(network, X[:2], y[:2], given.eps[0], asked)
    rows = [compare(network, X, y, eps, asked) for eps in given.eps]
    alone, together = sum(row[0] for row in rows), sum(row[1] for row in rows)
    print(f"all radii: certify {together:.2f} s, loop {alone:.2f} s: {alone / together:.1f} times")
    raise SystemExit(1 if any(row[2] for row in rows) or alone / together < given.at_least else 0)


if __name__ == "__main__":
    main()
