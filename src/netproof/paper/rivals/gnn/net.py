"""A graph network over the neurons of a verification problem: embeddings, messages forwards and backwards, a score.

After Lu and Kumar (ICLR 2020). The graph is the network condensed to its unstable neurons, where what a neuron reads is
a linear form of those before it. The same small maps serve every neuron of every layer, so one set of weights serves
any network, and the order of neurons within a layer plays no part.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor, nn

from netproof.bounds.neurons.root import Root
from netproof.errors import UsageError
from netproof.paper.rivals.gnn.features import BABSR, COUNT

WEIGHTS = Path(__file__).with_name("gnn.npz")
WIDTH = 24  # p: numbers a neuron's embedding has
SCALE = 20.0  # of BaBSR's logarithmic scores: 5 for a factor of 10
BUDGET = {"cpu": 64 << 20, "cuda": 2 << 30}  # bytes of embeddings at once


@dataclass(frozen=True, eq=False)
class Links:
    """How each layer reads those before it, in shares of widths: M_ji · width_i / width_j.

    That is dimensionless: the part of neuron j's range that neuron i may be the cause of. Signed, and without signs.
    """

    sizes: list[int]  # U_k
    signed: list[Tensor]  # by layer (U_k, neurons before it)
    size: list[Tensor]

    @classmethod
    def of(cls, root: Root) -> Links:
        net = root.condensed32
        lower, upper = (torch.cat([root.bias[:0], *parts]) for parts in (root.lower, root.upper))
        width = (upper - lower).clamp(min=1e-12)
        matrix = net.matrix[:, net.base :] * width / width[:, None]
        matrix = matrix.nan_to_num(0.0, 0.0, 0.0).clamp(-2, 2)
        signed = [matrix[layer.packed, : layer.start] for layer in net.layers]
        return cls(net.sizes, signed, [part.abs() for part in signed])


class BranchingNet(nn.Module):
    """Scores of neurons, as a correction to BaBSR's.

    Half of an embedding's channels travel with the sign of a weight, half with its size.
    """

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(COUNT, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.forwards = nn.Linear(2 * width, width)
        self.backwards = nn.Linear(2 * width, width)
        last = nn.Linear(2 * width, 1)
        nn.init.zeros_(last.weight)  # untrained it is BaBSR
        nn.init.zeros_(last.bias)
        self.score = nn.Sequential(nn.Linear(COUNT + 3 * width, 2 * width), nn.ReLU(), last)
        self.with_sign = width // 2

    def forward(self, links: Links, features: Tensor) -> Tensor:
        """Score neurons: features (domain, U, COUNT) -> scores (domain, U)."""
        x = features.transpose(0, 1)  # neurons first: a message to a layer is then one matrix product
        first = self.embed(x)
        there = self._forwards(links, first)
        back = self._backwards(links, there)
        scores: Tensor = self.score(torch.cat([x, first, there, back], -1))[..., 0]
        return (scores + SCALE * x[..., BABSR]).transpose(0, 1)

    def _forwards(self, links: Links, embedded: Tensor) -> Tensor:
        """Pass messages from the input on, so that each layer hears from all before it; (U, domain, p) in and out."""
        done: list[Tensor] = []
        for k, own in enumerate(embedded.split(links.sizes)):
            if done:
                before = torch.cat(done)
                heard = self._carry(links.signed[k], links.size[k], before)
            else:
                heard = torch.zeros_like(own)
            done.append(own + torch.relu(self.forwards(torch.cat([own, heard], -1))))
        return torch.cat(done) if done else embedded

    def _backwards(self, links: Links, embedded: Tensor) -> Tensor:
        """Pass messages from the output on, so that each layer hears from all after it; (U, domain, p) in and out."""
        parts = embedded.split(links.sizes)
        heard = torch.zeros_like(embedded)
        done: list[Tensor] = []
        for k in reversed(range(len(parts))):
            own = parts[k]
            start = sum(links.sizes[:k])
            here = own + torch.relu(self.backwards(torch.cat([own, heard[start : start + len(own)]], -1)))
            done.append(here)
            if start:
                told = self._carry(links.signed[k].mT, links.size[k].mT, here)
                heard = heard + torch.nn.functional.pad(told, (0, 0, 0, 0, 0, len(heard) - start))
        return torch.cat(done[::-1]) if done else embedded

    def _carry(self, signed: Tensor, size: Tensor, embedded: Tensor) -> Tensor:
        """Return the messages (to, domain, p) of embeddings (from, domain, p) along links (to, from)."""
        flat = (part.flatten(1) for part in embedded.split([self.with_sign, embedded.shape[-1] - self.with_sign], -1))
        told = [
            (link @ part).view(len(link), embedded.shape[1], -1)
            for link, part in zip((signed, size), flat, strict=True)
        ]
        return torch.cat(told, -1)

    def domains_at_once(self, neurons: int, device: torch.device) -> int:
        return max(1, BUDGET[device.type] // (4 * 12 * 2 * self.with_sign * max(1, neurons)))

    @torch.no_grad()
    def scores(self, links: Links, features: Tensor) -> Tensor:
        """Return the scores (domain, U), computed for as many sub-domains at a time as fit."""
        parts = features.split(self.domains_at_once(features.shape[1], features.device))
        return torch.cat([features[:0, :, 0], *(self(links, part) for part in parts)])


def save_weights(net: BranchingNet, path: Path) -> None:
    np.savez(path, **{name: value.detach().cpu().numpy() for name, value in net.state_dict().items()})


def load_weights(path: Path = WEIGHTS) -> BranchingNet:
    """Load a network of its own, which the caller may train; UsageError where the file does not hold one."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            state = {name: torch.from_numpy(stored[name]) for name in stored.files}
        net = BranchingNet(state["forwards.weight"].shape[0])
        net.load_state_dict(state)
    except (OSError, EOFError, ValueError, TypeError, KeyError, RuntimeError, BadZipFile) as error:
        raise UsageError(f"not the weights of a branching network: {error}", file=str(path)) from error
    return net
