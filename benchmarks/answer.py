"""One version of netproof, for versions.py and modules.py: a question a line on stdin, its answer on stdout."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from architectures import build

import netproof


def answer(asked: dict[str, Any]) -> tuple[str, float]:
    """Verify a property, or read a module; return the verdict and the seconds it took, of the processor if so asked."""
    clock = time.process_time if asked.pop("cpu", False) else time.perf_counter
    if "module" in asked:
        module, shape = build(asked["module"])
        began = clock()
        netproof.load_network(module, example_shape=shape)
        return "read", clock() - began
    began = clock()
    verdict = netproof.verify(asked.pop("onnx"), asked.pop("vnnlib"), **asked)
    return str(verdict.status), clock() - began


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a library that prints cannot spoil an answer
    print(json.dumps({"version": str(Path(netproof.__file__).parent)}), file=out, flush=True)
    for line in sys.stdin:
        verdict, seconds = answer(json.loads(line))
        print(json.dumps({"verdict": verdict, "seconds": seconds}), file=out, flush=True)


if __name__ == "__main__":
    main()
