"""The Python interface in one screen: ask about a bundled network, and read the answer.

python examples/quickstart.py
"""

from __future__ import annotations

from importlib.resources import as_file, files

import numpy as np
from PIL import Image

import netproof


def main() -> None:
    with as_file(files("netproof.demo") / "data") as data:
        network = netproof.load_network(data / "onnx" / "digits-fc.onnx")
        with Image.open(data / "images" / "digit-5-003.png") as file:
            x = np.asarray(file, dtype=np.float32).reshape(network.input_shape) / np.float32(255)

    for eps in (2 / 255, 0.1):
        region = netproof.linf_ball(x, eps=eps, clip=(0, 1))
        verdict = netproof.verify(network, region, label=5, timeout=60)
        print(f"within {eps:.4f}: {verdict.status} {verdict.reason}".rstrip())
        if verdict.status == "unsat":
            print(f"  proved: 5 leads every other digit by {verdict.lower_bound:.3f} or more")
        elif verdict.witness is not None:
            moved = np.abs(verdict.witness.input - x).max()
            print(f"  read as {verdict.witness.output.argmax()} after moving pixels by at most {moved:.4f}")
        print(f"  {verdict.stats.domains} sub-domains, {verdict.stats.seconds['total']:.2f} s")


if __name__ == "__main__":
    main()
