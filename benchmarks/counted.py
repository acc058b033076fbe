"""One version of netproof for operations.py: a question a line on stdin, and what its search asked of torch on stdout.

Counted are the operations that torch dispatches, and where a program has to wait for a GPU: where a number, a list or
an array is taken out of a tensor, or the size of a result depends on values.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import netproof

ATEN = torch.ops.aten
# What a GPU has to be waited for: the number is needed, or the size of the result depends on values.
WAITING = {
    ATEN._local_scalar_dense,
    ATEN.nonzero,
    ATEN.masked_select,
    ATEN._unique2,
    ATEN.unique_dim,
    ATEN.unique_consecutive,
    ATEN.equal,
    ATEN.is_nonzero,
}
OUT = ("cpu", "numpy", "tolist")  # methods that take values out of a tensor


class Counts(TorchDispatchMode):
    """Counts operations and waits."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        packet = call.overloadpacket
        self.operations[str(packet)] += 1
        masks = packet in (ATEN.index, ATEN.index_put, ATEN.index_put_) and any(
            part is not None and part.dtype == torch.bool for part in args[1]
        )
        if packet in WAITING or masks:
            self.waits[str(packet)] += 1
        return call(*args, **(kwargs or {}))

    def hearing(self, name: str) -> Any:
        """The method of a tensor that also counts."""
        plain = getattr(torch.Tensor, name)

        def method(tensor: torch.Tensor, *args: Any, **more: Any) -> Any:
            self.waits[f"Tensor.{name}"] += 1
            return plain(tensor, *args, **more)

        return method


def choose_as_on(kind: str) -> None:
    """Have every table by device say for the CPU what it says for another device."""
    for module in pkgutil.walk_packages(netproof.__path__, "netproof."):
        if module.name.split(".")[1] in ("search", "bounds", "methods", "run", "branching", "programs", "model"):
            importlib.import_module(module.name)
    for name, module in list(sys.modules.items()):
        for table in vars(module).values() if name.startswith("netproof.") else ():
            if isinstance(table, dict) and {"cpu", kind} <= table.keys() <= {"cpu", "cuda"}:
                table["cpu"] = table[kind]


def count(asked: dict[str, Any]) -> dict[str, Any]:
    """Verify a property; return what that asked of torch."""
    files, counts = (asked.pop("onnx"), asked.pop("vnnlib")), Counts()
    with ExitStack() as until_the_end:
        if asked.pop("certificate"):
            asked["certificate"] = recording(until_the_end, *map(Path, files))
        for name in OUT:
            until_the_end.enter_context(mock.patch.object(torch.Tensor, name, counts.hearing(name)))
        until_the_end.enter_context(counts)
        verdict = netproof.verify(*files, attack=False, device="cpu", threads=1, **asked)
    return {
        "verdict": str(verdict.status),
        "domains": verdict.stats.domains,
        "operations": dict(counts.operations),
        "waits": dict(counts.waits),
    }


def recording(until_the_end: ExitStack, model: Path, spec: Path) -> Any:
    """What hears of the search for a certificate, which is not written: that asks nothing of torch."""
    from netproof.certificate.record import Recording
    from netproof.certificate.request import Request

    folder = Path(until_the_end.enter_context(tempfile.TemporaryDirectory()))
    return Recording.of(Request(folder / "c.npcert", model, spec, folder / "hints", check=False, at_once=False))


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a library that prints cannot spoil an answer
    print(json.dumps({"version": str(Path(netproof.__file__).parent)}), file=out, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if asked.pop("choices") == "cuda":
            choose_as_on("cuda")
        print(json.dumps(count(asked)), file=out, flush=True)


if __name__ == "__main__":
    main()
