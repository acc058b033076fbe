"""How many multiply-adds in float64 a sub-domain costs, as it is and with proofs in float64 alone.

Give instances as MODEL.onnx SPEC.vnnlib, or as SET:ROW (rows of instances.csv from 1; a set is a folder or a name in
$NETPROOF_BENCHMARKS). Counted are matrix products and convolutions in float64 as torch runs them: those that bound
sub-domains, of neurons too, and all of a run, with what is made once for a root. The exit code is 1 where the two ways
differ in a verdict, or where float32 first is not cheaper by `--at-least`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import instances
import options
import torch
from tables import count, say, table
from throughput import read_instances
from torch.utils._python_dispatch import TorchDispatchMode

import netproof
from netproof.bounds.base import Bounds
from netproof.bounds.beta import Beta
from netproof.bounds.condensed import single
from netproof.bounds.domains import Domains
from netproof.bounds.scope import Scope
from netproof.core.cpu import available_cpus

COLUMNS = "instance proofs verdict sub-domains float64/sub-domain float64_in_all fewer"
ATEN = torch.ops.aten
PRODUCTS = (ATEN.mm, ATEN.bmm, ATEN.mv, ATEN.dot, ATEN.vdot)
ADDED = (ATEN.addmm, ATEN.addmm_, ATEN.baddbmm, ATEN.baddbmm_, ATEN.addmv, ATEN.addmv_)


def multiply_adds(call: Any, args: tuple[Any, ...], found: Any) -> int:
    """Count those of one operation, 0 where it is neither a matrix product nor a convolution."""
    if call in PRODUCTS:
        return found.numel() * args[0].shape[-1]
    if call in ADDED:
        return found.numel() * args[1].shape[-1]
    if call is ATEN.convolution:
        x, weight, transposed = args[0], args[1], args[6]
        return (x if transposed else found).numel() * weight[0].numel()
    return 0


class Counter(TorchDispatchMode):
    """Counts multiply-adds in float64, those below the root apart."""

    def __init__(self) -> None:
        super().__init__()
        self.all = 0
        self.below = 0
        self.domains = 0
        self.is_below = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if isinstance(found, torch.Tensor) and found.dtype == torch.float64:
            number = multiply_adds(func.overloadpacket, args, found)
            self.all += number
            self.below += number * self.is_below
        return found


@contextmanager
def counted(*, double: bool) -> Iterator[Counter]:
    """Count what a run does; double: with proofs in float64 alone."""
    counter, plain = Counter(), Beta.bound_part

    def bound_part(self: Beta, part: Scope, domains: Domains, *rest: Any, **named: Any) -> Bounds:
        _ = part.net64 if double else part.single  # made once for a root: no cost of these sub-domains
        counter.is_below = True
        counter.domains += len(domains)
        try:
            return plain(self, part, domains, *rest, **named)
        finally:
            counter.is_below = False

    first_on = () if double else ("cpu", "cuda")  # a CPU, where it would not be, counts as well
    with (
        mock.patch.object(Beta, "bound_part", bound_part),
        mock.patch.object(single, "FIRST_ON", first_on),
        counter,
    ):
        yield counter


@dataclass(frozen=True)
class Run:
    status: str
    domains: int
    each: float  # multiply-adds in float64 for each sub-domain
    all: int

    @classmethod
    def of(cls, given: argparse.Namespace, loaded: tuple[Any, Any], *, double: bool) -> Run:
        """Run an instance, and count."""
        with counted(double=double) as counter:
            verdict = netproof.verify(
                *loaded,
                method=given.method,
                timeout=given.timeout,
                device=given.device,
                threads=given.threads,
                seed=given.seed,
                attack=False,
                options=dict(given.set),
            )
        each = counter.below / counter.domains if counter.domains else 0.0
        return cls(str(verdict.status), counter.domains, each, counter.all)

    def cells(self) -> list[str]:
        return [self.status, count(self.domains), count(self.each), count(self.all)]


def arguments() -> argparse.Namespace:
    parser = options.Parser(description=__doc__)
    parser.add_argument("instance", nargs="+", help="MODEL.onnx SPEC.vnnlib, or SET:ROW as in oval21:3")
    parser.add_argument(
        "--timeout", type=options.above_zero, default=60.0, metavar="S", help="of each run (default: 60)"
    )
    parser.add_argument("--method", default="auto", help="(default: auto)")
    parser.add_argument("--at-least", type=options.above_zero, metavar="X", help="times fewer for each sub-domain")
    options.engine_options(parser)
    return parser.parse_args()


def main() -> int:
    given = arguments()
    loaded = {name: instances.load(instance) for name, instance in read_instances(given.instance).items()}
    torch.set_num_threads(given.threads or available_cpus())
    rows, failed = [[word.replace("_", " ") for word in COLUMNS.split()]], False
    for name, files in loaded.items():
        now, before = (Run.of(given, files, double=double) for double in (False, True))
        fewer = before.each / now.each if now.each else None
        rows.append([name, "float32 first", *now.cells(), "-" if fewer is None else f"{fewer:.1f}"])
        rows.append([name, "float64", *before.cells(), ""])
        if now.status != before.status:
            say(f"{name}: {now.status}, and {before.status} with proofs in float64 alone")
            failed = True
        failed |= given.at_least is not None and fewer is not None and fewer < given.at_least
    print(table(rows, names=3))
    return int(failed)


if __name__ == "__main__":
    options.run(main)
