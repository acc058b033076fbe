"""The graph network of Lu and Kumar (ICLR 2020), for the weights that they published.

Its nodes are all inputs, all neurons and the property. Each has an embedding of p numbers. In a round every layer
hears the one before it, along the network's own weights, from the first to the property, and then the one behind it,
from the property back to the input. Messages of a convolution's windows are averaged on the way back, but for those to
the input. A neuron hears its neighbours twice, with the slopes of its two sides, and adds what is known of its
triangle; a neuron that is inactive has the embedding 0.

The maps have the names of the file that the authors published (`EmbedUpdates.update.…`, `ComputeFinalScore.…`), so that
this file, converted to .npz, is read as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile
from zlib import error as BrokenStream

import numpy as np
import torch
from torch import Tensor, nn

from netproof.errors import UsageError
from netproof.paper.rivals.gnn.wiring import Wiring

ROUNDS = 2
# What each map reads and writes: a number is a count of features, "p" an embedding, "2p" two of them.
READS: dict[str, int | str] = {
    "inp_f": 3,
    "inp_b": 2,
    "inp_b2": "2p",
    "fc1": 7,
    "fc3": "2p",
    "fc4": "2p",
    "out1": 4,
    "out2": "2p",
    "bc1": 7,
    "bc2": "3p",
    "bc3": "2p",
    "bc4": "2p",
    **dict.fromkeys(
        ("inp_f_1", "inp_b_1", "inp_b2_2", "fc1_1", "fc3_2", "fc4_2", "out3", "bc1_1", "bc1_2", "bc2_1", "bc3_1"), "p"
    ),
    "bc4_1": "p",
    "fnode": "p",
    "fscore": "p",
}
LAST = ("fnode", "fscore")  # of `ComputeFinalScore`


@dataclass(frozen=True, eq=False)
class Seen:
    """What the network is told of one sub-domain, float32. Lists are by layer of neurons, each flattened."""

    inputs: Tensor  # (input, 3): lower bound, value at the LP's optimum, upper bound
    lower: list[Tensor]  # (n_k,) of every neuron's h
    upper: list[Tensor]
    before: list[Tensor]  # (n_k,) h and z at the LP's optimum
    after: list[Tensor]
    identity: list[Tensor]  # (n_k,) prices of the triangle's lines z >= h and z <= s h + s|l|
    chord: list[Tensor]
    property: Tensor  # (4,): lower bound, upper bound, value at the optimum, constant
    weight: Tensor  # (1, n_last): how the property reads the last neurons


class PublishedNet(nn.Module):
    """Scores of neurons."""

    def __init__(self, width: int) -> None:
        super().__init__()
        sizes = {name: _count(reads, width) for name, reads in READS.items()}
        self.maps = nn.ModuleDict({name: nn.Linear(n, 1 if name == "fscore" else width) for name, n in sizes.items()})
        self.width = width

    def forward(self, wiring: Wiring, seen: Seen) -> Tensor:
        """Score all neurons, (n_1 + n_2 + …,), whether they can be split or not."""
        slopes = [_Slopes.of(low, high) for low, high in zip(seen.lower, seen.upper, strict=True)]
        mu = [self._run(seen.inputs, "inp_f", "inp_f_1")]
        for _ in range(ROUNDS):
            mu = self._forwards(wiring, seen, slopes, mu[0])
            mu = self._backwards(wiring, seen, slopes, mu)
        scores: Tensor = self._run(torch.cat(mu[1:-1]), "fnode", "fscore")[:, 0]
        return scores

    def _run(self, x: Tensor, *names: str) -> Tensor:
        """Apply maps one after the other with a ReLU between each two."""
        for k, name in enumerate(names):
            x = self.maps[name](x.relu() if k else x)
        return x

    def _forwards(self, wiring: Wiring, seen: Seen, slopes: Sequence[_Slopes], first: Tensor) -> list[Tensor]:
        """Return the embeddings of the input, every layer and the property, from those of the input."""
        mu = [first]
        for k, slope in enumerate(slopes):
            known = torch.stack(
                [
                    slope.intercept,
                    seen.lower[k],
                    seen.upper[k],
                    seen.identity[k] + seen.chord[k],
                    seen.before[k],
                    seen.after[k],
                    wiring.bias[k],
                ],
                1,
            )
            own = self._run(known, "fc1", "fc1_1") * slope.unstable
            heard = self._run(slope.sides(wiring.forwards(k, mu[k])), "fc3", "fc3_2")
            mu.append(self._run(torch.cat([own, heard], 1), "fc4", "fc4_2") * slope.alive)
        own = self._run(seen.property[None], "out1").relu()
        mu.append(self._run(torch.cat([own, seen.weight @ mu[-1]], 1), "out2", "out3"))
        return mu

    def _backwards(self, wiring: Wiring, seen: Seen, slopes: Sequence[_Slopes], mu: list[Tensor]) -> list[Tensor]:
        """Return the embeddings, where each layer has heard the one behind it."""
        mu = list(mu)
        for k in reversed(range(len(slopes))):
            slope = slopes[k]
            known = torch.stack(
                [
                    seen.lower[k],
                    seen.upper[k],
                    slope.intercept,
                    seen.identity[k] + seen.chord[k],
                    seen.after[k],
                    seen.before[k],
                    wiring.bias[k],
                ],
                1,
            )
            own = self._run(known, "bc1", "bc1_1", "bc1_2")
            priced = torch.cat([own, own * seen.chord[k][:, None], own * seen.identity[k][:, None]], 1)
            own = self._run(priced, "bc2", "bc2_1") * slope.unstable
            last = k == len(slopes) - 1
            told = seen.weight.mT @ mu[k + 2] if last else wiring.backwards(k + 1, mu[k + 2], averaged=True)
            heard = self._run(slope.sides(told), "bc3", "bc3_1")
            mu[k + 1] = self._run(torch.cat([own, heard], 1), "bc4", "bc4_1") * slope.alive
        own = self._run(seen.inputs[:, [0, 2]], "inp_b", "inp_b_1")
        told = wiring.backwards(0, mu[1], averaged=False)
        mu[0] = self._run(torch.cat([own, told], 1), "inp_b2", "inp_b2_2")
        return mu


@dataclass(frozen=True, eq=False)
class _Slopes:
    """A layer's relaxation, (n, 1) but for the intercept."""

    upper: Tensor  # the chord's slope: 1 of an active neuron, 0 of an inactive one
    rest: Tensor  # 1 less that, of an unstable neuron; else the same
    intercept: Tensor  # (n,) of the chord
    unstable: Tensor
    alive: Tensor

    @classmethod
    def of(cls, lower: Tensor, upper: Tensor) -> _Slopes:
        low, high = -lower.clamp(max=0), upper.clamp(min=0)
        slope = (high / (high + low)).nan_to_num(nan=0.0)
        intercept = low * slope
        unstable = intercept > 0
        rest = torch.where(unstable, 1 - slope, slope)
        return cls(slope[:, None], rest[:, None], intercept, unstable[:, None].float(), (slope != 0)[:, None].float())

    def sides(self, heard: Tensor) -> Tensor:
        """Return what a layer hears (n, p) with both slopes, (n, 2p)."""
        return torch.cat([heard * self.upper, heard * self.rest], 1)


def _count(reads: int | str, width: int) -> int:
    return reads if isinstance(reads, int) else int(reads[:-1] or 1) * width


def _full(name: str) -> str:
    return f"ComputeFinalScore.{name}" if name in LAST else f"EmbedUpdates.update.{name}"


# RuntimeError: of an archive that is encrypted, or packed in a way that zipfile does not know.
_UNREADABLE = (OSError, EOFError, ValueError, TypeError, KeyError, RuntimeError, BadZipFile, BrokenStream)


def load_published(path: Path) -> PublishedNet:
    """Load a network of its own, which the caller may train; UsageError where the file does not hold one."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            tensors = {name: np.asarray(stored[name]) for name in stored.files}
    except _UNREADABLE as error:
        raise _wrong(path, f"not a .npz file that can be read: {error}") from error
    net = PublishedNet(_width(path, tensors))
    state = {f"{_full(name)}.{part}": value for name, m in net.maps.items() for part, value in m.named_parameters()}
    for name, parameter in state.items():
        found = tensors.get(name)
        if found is None:
            raise _wrong(path, f"no tensor {name}")
        if found.shape != tuple(parameter.shape):
            raise _wrong(path, f"{name} is of shape {found.shape}, not {tuple(parameter.shape)}")
        if not np.issubdtype(found.dtype, np.floating) or not (np.abs(found) <= np.finfo(np.float32).max).all():
            raise _wrong(path, f"{name} does not hold finite float32 numbers")
        # Below the smallest normal number, where weight decay has brought some maps, arithmetic is slow on a CPU.
        found = np.where(np.abs(found) < np.finfo(np.float32).tiny, 0, found)
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(found.astype(np.float32)))
    unknown = sorted(set(tensors) - set(state))
    if unknown:
        raise _wrong(path, f"{unknown[0]} is no tensor of this network")
    return net


def _width(path: Path, tensors: dict[str, np.ndarray]) -> int:
    name = "ComputeFinalScore.fnode.weight"
    if name not in tensors:
        raise _wrong(path, f"no tensor {name}")
    shape = tensors[name].shape
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 1:
        raise _wrong(path, f"{name} is of shape {shape}, not square")
    return int(shape[0])


def _wrong(path: Path, what: str) -> UsageError:
    remedy = "weights: the tensors of GNN_branching's network by their names there, see docs/paper.md"
    return UsageError(what, file=str(path), remedy=remedy)
