"""The process of one version of netproof for versions.py: a question a line on stdin, its answer on stdout."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import netproof


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a library that prints cannot spoil an answer
    print(json.dumps({"version": str(Path(netproof.__file__).parent)}), file=out, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        began = time.perf_counter()
        verdict = netproof.verify(asked.pop("onnx"), asked.pop("vnnlib"), **asked)
        seconds = time.perf_counter() - began
        print(json.dumps({"verdict": str(verdict.status), "seconds": seconds}), file=out, flush=True)


if __name__ == "__main__":
    main()
