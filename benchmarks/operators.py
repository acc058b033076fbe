"""How tight are bounds of each operator: the width of an output's interval on random networks, beside intervals.

Each operator stands behind four linear layers. The widths are medians over networks, as shares of what interval
arithmetic gives: of sampling, which no bound can be below, of CROWN and of optimised slopes (method alpha). An operator
joins by a line in `CASES`.
"""

from __future__ import annotations

import itertools
import statistics
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from options import Parser, positive, run
from tables import say, table
from torch import Tensor, nn

import netproof
from netproof.errors import UsageError
from netproof.problem.specs import linf_ball

WIDTH, DEPTH, INPUTS = 10, 4, 5
Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Case:
    """An operator as torch has it, and what is added to its argument where that must be positive."""

    function: Function
    offset: float | None = None


CASES: dict[str, Case] = {
    "Relu": Case(torch.relu),
    "Sigmoid": Case(torch.sigmoid),
    "Tanh": Case(torch.tanh),
    "Erf": Case(torch.erf),
    "Atan": Case(torch.atan),
    "Softsign": Case(F.softsign),
    "Softplus": Case(F.softplus),
    "Elu": Case(F.elu),
    "Selu": Case(F.selu),
    "Celu": Case(lambda x: F.celu(x, 1.3)),
    "Gelu": Case(F.gelu),
    "Gelu (tanh)": Case(lambda x: F.gelu(x, approximate="tanh")),
    "SiLU": Case(F.silu),
    "Mish": Case(F.mish),
    "HardSwish": Case(F.hardswish),
    "Exp": Case(lambda x: torch.exp(0.25 * x)),
    "Sin": Case(torch.sin),
    "Cos": Case(torch.cos),
    "Pow 2": Case(lambda x: (0.5 * x) ** 2),
    "Pow 3": Case(lambda x: (0.5 * x) ** 3),
    "Log": Case(torch.log, 0.5),
    "Sqrt": Case(torch.sqrt, 0.05),
    "Reciprocal": Case(torch.reciprocal, 0.5),
    "Pow 2.5": Case(lambda x: x**2.5, 0.05),
}


class Random(nn.Module):
    """A random network with the operator behind each of its layers; a positive argument is a sigmoid and an offset."""

    def __init__(self, case: Case, seed: int) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(seed)
        sizes = [INPUTS] + [WIDTH] * DEPTH + [1]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        with torch.no_grad():
            for layer in self.layers:
                layer.weight.copy_(torch.randn(layer.weight.shape, generator=random) / layer.in_features**0.5)
                layer.bias.copy_(0.3 * torch.randn(layer.bias.shape, generator=random))
        self.function, self.offset = case.function, case.offset

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            h = layer(x)
            x = self.function(h if self.offset is None else torch.sigmoid(h) + self.offset)
        return self.layers[-1](x)


@dataclass(frozen=True)
class Widths:
    """Of one output on one network."""

    sampled: float
    intervals: float
    crown: float
    alpha: float


def widths(case: Case, seed: int, radius: float = 0.5) -> Widths:
    """Bound one random network on a box, and sample it."""
    module = Random(case, seed)
    network = netproof.load_network(module, example_shape=(1, INPUTS))
    centre = torch.randn(INPUTS, generator=torch.Generator().manual_seed(seed + 1000))
    region = linf_ball(centre.numpy()[None], radius)
    found = [netproof.bounds(network, region, method=method, device="cpu") for method in ("ibp", "crown", "alpha")]
    points = centre + radius * (2.0 * torch.rand(4000, INPUTS) - 1.0)
    corners = centre + radius * (2.0 * (torch.rand(4000, INPUTS) < 0.5).float() - 1.0)
    with torch.no_grad():
        values = module(torch.cat([points, corners]))
    return Widths(float(values.max() - values.min()), *(float((b.upper - b.lower).max()) for b in found))


def median_share(found: Iterable[Widths], part: str) -> float:
    """The median of one width, as a share of what intervals give on the same network."""
    return statistics.median(getattr(w, part) / w.intervals for w in found)


def measured(names: Iterable[str], networks: int) -> list[list[str]]:
    """The rows of the table, one for each operator."""
    rows = []
    for name in names:
        found = [widths(CASES[name], seed) for seed in range(networks)]
        middle = statistics.median(w.intervals for w in found)
        shares = (median_share(found, part) for part in ("sampled", "crown", "alpha"))
        rows.append([name, f"{middle:.3g}", *(f"{share:.1%}" for share in shares)])
        say(" · ".join(rows[-1]))
    return rows


def main() -> int:
    parser = Parser(description=__doc__, prog="operators.py")
    parser.add_argument("--networks", type=positive, default=9, metavar="N", help="of each operator (default: 9)")
    parser.add_argument("operators", nargs="*", default=list(CASES), metavar="OPERATOR", help="names (default: all)")
    asked = parser.parse_args()
    if unknown := [name for name in asked.operators if name not in CASES]:
        raise UsageError(f"no case for {', '.join(unknown)}", remedy=f"there are {', '.join(CASES)}")
    warnings.simplefilter("ignore")
    header = ["operator", "width by intervals", "sampled", "crown", "alpha"]
    print(table([header, *measured(asked.operators, asked.networks)]))
    return 0


if __name__ == "__main__":
    run(main)
