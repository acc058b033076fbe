"""`GnnFailSafe` with the network and the weights that its authors published: what that is told of a sub-domain.

It is told of the LP's own optimum and prices, and of the bounds of the property too: below by the LP, and above by
parallel slopes, the parent's where that is better.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from netproof.bounds.domains import Domains, names_of, parents
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.linear.layers import initial_slopes
from netproof.bounds.neurons.root import Root
from netproof.paper.rivals.gnn.fail_safe import GnnFailSafe
from netproof.paper.rivals.gnn.published import PublishedNet, Seen, load_published
from netproof.paper.rivals.gnn.wiring import Wiring
from netproof.paper.rivals.optimum import Optimum


@dataclass(eq=False)
class _Known:
    """What is the same for all sub-domains of a root, and the property's upper bound (by name) of each so far."""

    root: Root
    wiring: Wiring
    upper: dict[bytes, float] = field(default_factory=dict)


@dataclass(eq=False)
class _State:
    net: PublishedNet | None = None
    known: _Known | None = None


@dataclass(frozen=True, eq=False)
class PublishedFailSafe(GnnFailSafe):
    """`weights` is the file; what lessons change is the run's own copy."""

    state: _State = field(default_factory=_State, init=False, repr=False)

    def __post_init__(self) -> None:
        self.state.net = load_published(self.weights)  # a wrong file is to be known of before anything else is done

    def _told(self, root: Root, domain: Domains) -> Seen | None:
        known, optimum = self._known(root), self.bounder.optimum(root, domain)
        self.memory.root = root
        return None if optimum is None else seen_of(root, domain, optimum, known.wiring, _upper(known, domain))

    def _scored(self, root: Root, told: Seen) -> Tensor:
        wiring = self._known(root).wiring
        scores: Tensor = self._learner(root)(wiring, told)
        every = dict(zip(wiring.pre, scores.split([len(low) for low in told.lower]), strict=True))
        return torch.cat([every[layer.pre][layer.index] for layer in root.layers])

    def _learner(self, root: Root) -> nn.Module:
        assert self.state.net is not None
        return self.state.net.to(root.device)

    def _known(self, root: Root) -> _Known:
        if self.state.known is None or self.state.known.root is not root:
            self.state.known = _Known(root, Wiring.of(root))
        return self.state.known


def seen_of(root: Root, domain: Domains, optimum: Optimum, wiring: Wiring, upper: float) -> Seen:
    """Return what the network is told of one sub-domain; upper: a bound of the property."""
    box, bounds = root.intervals.of[0], [root.intervals.of[node] for node in wiring.pre]
    sides = [box.lower.flatten().float(), optimum.x.to(root.device), box.upper.flatten().float()]
    weights = domain.weights[0].double()
    coef = (weights @ root.rows.coef[domain.target[0]]).float()
    offset = (weights @ root.rows.offset[domain.target[0]]).float()
    weight, constant = wiring.property(coef, offset)
    least = domain.bound[0].float().to(root.device)
    nothing = [torch.zeros(own.lower.numel(), device=root.device) for own in bounds]

    def laid(packed: Tensor, others: list[Tensor]) -> list[Tensor]:
        """Return what the packed neurons have (U,), by layer among all neurons."""
        packed, every = packed.to(root.device), dict(zip(wiring.pre, others, strict=True))
        for layer in root.layers:
            every[layer.pre] = every[layer.pre].index_copy(0, layer.index, packed[layer.packed])
        return list(every.values())

    return Seen(
        torch.stack(sides, 1),
        laid(domain.lower[0].float(), [own.lower.flatten().float() for own in bounds]),
        laid(domain.upper[0].float(), [own.upper.flatten().float() for own in bounds]),
        laid(optimum.before, nothing),
        laid(optimum.after, nothing),
        laid(optimum.identity, nothing),
        laid(optimum.chord, nothing),
        torch.stack([least, least.new_tensor(upper), least, constant]),
        weight,
    )


def _upper(known: _Known, domain: Domains) -> float:
    """Return an upper bound of the property on one sub-domain, by parallel slopes, and remember it for its children."""
    root, net = known.root, known.root.net64
    forms, error = net.rows[domain.target[0]], net.error[domain.target[0]]
    weights = domain.weights[0].to(forms)
    slopes = initial_slopes(root.layers, domain.lower, domain.upper, parallel=True)
    dual = Dual.of_forms(net, -(weights @ forms)[None], (weights @ error)[None], domain.known)
    upper = -float(dual.at(DualPoint(slopes, None, torch.ones(1, 1, device=root.device))).value)
    (name,), (parent,) = names_of(domain), names_of(replace(domain, splits=parents(domain)))
    known.upper[name] = min(upper, known.upper.get(parent, upper))
    return known.upper[name]
