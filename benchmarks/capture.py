"""What a CUDA graph of the optimiser's steps would gain, by batch: eager, captured, replayed.

An eager climb pays a launch for each of its operations; a captured one pays for the capture once, and little for each
replay. So a graph is worth having where one problem replays it often at a batch that leaves the device waiting. Give
instances as SET:ROW (rows of instances.csv from 1; a set is a folder or a name in $NETPROOF_BENCHMARKS).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any
from unittest import mock

import options
import torch
from floor import describe
from instances import load, read_row
from scaling import Bench, seconds_of
from tables import say, table

import netproof
from netproof.bounds.ascent import Climb, Schedule, ascend
from netproof.bounds.domains import Domains
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.neurons.root import Root
from netproof.core.deadline import Deadline
from netproof.errors import DeviceError
from netproof.methods.build import build_method
from netproof.methods.device import resolve_device
from netproof.methods.registry import method_info
from netproof.numerics import use_strict_float32
from netproof.problem.reduce import reduce

COLUMNS = ["instance", "unstable", "batch", "eager ms", "capture ms", "replay ms", "pays after"]


def climb_of(root: Root, domains: Domains, steps: int) -> Callable[[], Any]:
    """The climb that bounds these sub-domains, none of which is ever settled."""
    never = torch.full((len(domains),), torch.inf, device=domains.bound.device)
    dual, theta = Dual.of(root, domains, proof=False), DualPoint.of(domains)
    return lambda: ascend(dual, theta, Climb(Schedule(steps, 0.1), never, Deadline()))


def capture(call: Callable[[], Any]) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


@torch.no_grad()
def measure(given: argparse.Namespace, name: str, device: torch.device) -> list[list[str]]:
    (problem, *_) = reduce(*load(read_row(name)))
    bench = Bench(build_method("beta", method_info("beta").options(dict(given.set)), device), device)
    root, bounds = bench.root(problem)
    grown = bench.grown(root, bounds, max(given.batch))
    rows = []
    for batch in given.batch:
        call = climb_of(root, grown.select(slice(0, batch)), given.steps)
        # Looking at what is settled waits for the device, which a capture cannot.
        with mock.patch("netproof.bounds.ascent.LOOK", given.steps + 1):
            side = torch.cuda.Stream(device)  # a first run there allocates what a capture may not
            with torch.cuda.stream(side):
                call()
            side.synchronize()
            eager = seconds_of(call, device, given.repeats)
            captured = seconds_of(lambda call=call: capture(call), device, given.repeats)  # type: ignore[misc]
            replay = seconds_of(capture(call).replay, device, given.repeats)
        pays = f"{captured / (eager - replay):.1f} rounds" if eager > replay else "never"
        rows.append([name, str(root.count), str(batch), *(f"{1e3 * t:.2f}" for t in (eager, captured, replay)), pays])
        say(" | ".join(rows[-1]))
    return rows


def arguments() -> argparse.Namespace:
    parser = options.Parser(description=__doc__)
    parser.add_argument("instances", nargs="+", metavar="SET:ROW")
    parser.add_argument("--batch", type=options.positives, default=[64, 512, 4096, 16384], metavar="N,N")
    parser.add_argument("--steps", type=options.positive, default=5, metavar="N", help="of a climb (default: 5)")
    parser.add_argument("--repeats", type=options.positive, default=7, metavar="R", help="medians of R (default: 7)")
    options.engine_options(parser)
    return parser.parse_args()


def main() -> int:
    given = arguments()
    device = resolve_device(given.device)
    if device.type != "cuda":
        raise DeviceError("a CUDA graph needs a CUDA device", remedy="run it where there is one, with --device cuda")
    use_strict_float32()
    rows = [row for name in given.instances for row in measure(given, name, device)]
    print(table([COLUMNS, *rows]), f"{describe(device)}; {given.steps} steps; torch {torch.__version__}", sep="\n\n")
    print(f"netproof {netproof.__version__}")
    return 0


if __name__ == "__main__":
    options.run(main)
