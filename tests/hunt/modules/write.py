"""From a seed to the source of a module, the shape that it is called with, and what is asked of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hunt.modules.pieces import PIECES, Shape, Writing
from model.value_reads import ASKED, LOST, RARE

READING = 0.35  # of the modules look at values of their input

# Their answer depends on the call before, or on the clock, so that there is nothing to compare with.
_OF_THE_CALL = frozenset({"last-call", "average", "previous", "first", "first-attribute", "memo-by-shape"})

_HEAD = '''"""{title}"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize
from torch.utils.checkpoint import checkpoint

from model.value_reads import ASKED, LOST, RARE
from model.value_reads.net import Net


class Doubling(nn.Module):
    def forward(self, weight):
        return 2 * weight


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clamp(-1, 1)

    @staticmethod
    def backward(ctx, grad):
        return grad


def moved(layer):
    """Give a norm some statistics."""
    layer.running_mean.uniform_(-1, 1)
    layer.running_var.uniform_(0.2, 2)
    return layer
'''


@dataclass(frozen=True)
class Asked:
    """A module by its source, and a box around a centre that is asked about."""

    seed: int
    source: str
    shape: Shape
    reads: str  # how it looks at values, empty where it does not
    jumps: bool  # whether rounding may move an output by more than rounding
    dtype: str
    centre: np.ndarray
    radius: float


def make(seed: int) -> Asked:
    """The module of a seed; the same for ever as long as this package and the list of reads are the same."""
    rng = np.random.default_rng([seed, 2])
    shape = _shape(rng)
    w = Writing(rng, shape)
    reads, jumps = "", False
    at = rng.integers(1, 6) if rng.random() < READING else -1
    for i in range(int(rng.integers(2, 8))):
        fitting = {name: piece for name, piece in PIECES.items() if piece.fits(w.shape) and math.prod(w.shape) < 200}
        shares = np.array([piece.share for piece in fitting.values()])
        name = str(rng.choice(list(fitting), p=shares / shares.sum()))
        fitting[name].make(w)
        jumps |= name in ("jump", "written")
        if i + 1 == at:
            reads = _read(w)
    outputs = int(rng.integers(2, 4))
    last = w.attribute(f"nn.Linear({math.prod(w.shape)}, {outputs})", "last")
    lead = "x.reshape(1, -1)" if w.shape[0] == 1 and len(w.shape) > 1 else "x.flatten()"
    dtype = str(rng.choice(["float32", "float64", "float16"], p=[0.8, 0.14, 0.06]))
    source = _source(w, f"return {last}({lead})", seed, dtype)
    centre = rng.uniform(-1, 1, shape).astype(np.float32)
    return Asked(seed, source, shape, reads, jumps, dtype, centre, float(np.float32(10 ** rng.uniform(-2.5, 0))))


def _shape(rng: np.random.Generator) -> Shape:
    n, m, k = (int(v) for v in rng.integers(2, 5, 3))
    shapes: list[Shape] = [(1, n), (1, n, m), (1, k - 1, n, m), (n,), (n, m), (n, 1, m)]
    return shapes[int(rng.choice(len(shapes), p=[0.5, 0.14, 0.16, 0.08, 0.08, 0.04]))]


def _read(w: Writing) -> str:
    """Add a look at values: somewhere along one direction the answer changes."""
    name = str(w.rng.choice([f"{kind}-{key}" for kind, keys in _READS.items() for key in keys]))
    kind, _, key = name.partition("-")
    reader = w.attribute("Net((0.0, 0.0), None)", "reader")
    steep, threshold = round(float(10 ** w.rng.uniform(0, 4)), 3), w.number(-0.5, 1.5)
    w.write(
        f"h = ({steep} * (x.float().mean() - {threshold})).clamp(0, 1) * torch.ones(1, 2)",
        {
            "rare": f"x = -x if RARE[{key!r}]({reader}, h) else x",
            "lost": f"x = x + LOST[{key!r}]({reader}, h).sum().to(x.dtype)",
            "asked": f"x = x + (0 * h if ASKED[{key!r}](h) else h).sum().to(x.dtype)",
        }[kind],
    )
    return name


_READS = {
    "rare": [name for name in RARE if name not in _OF_THE_CALL],
    "lost": [name for name in LOST if name not in _OF_THE_CALL],
    "asked": list(ASKED),
}


def _source(w: Writing, last: str, seed: int, dtype: str) -> str:
    init = ["super().__init__()", "self.kept, self.calls = {}, 0", *w.init]
    build = [f"torch.manual_seed({seed})", "net = Module().eval()", f"return net.to(torch.{dtype})"]
    parts = [
        _HEAD.format(title=f"The module of seed {seed}."),
        *(["\n".join(w.top) + "\n"] if w.top else []),
        "\n".join(["class Module(nn.Module):", "    def __init__(self):", *_indented(init, 2)]),
        "\n".join(["    def forward(self, x):", *_indented([*w.body, last], 2)]) + "\n",
        "\n".join(["def build():", *_indented(build, 1)]) + "\n",
    ]
    return "\n\n".join(parts)


def _indented(lines: list[str], by: int) -> list[str]:
    return ["    " * by + line for line in lines]
