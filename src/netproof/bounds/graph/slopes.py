"""The lower slopes of a batch of sub-domains: where they start from, and how they are handed around."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from netproof.bounds.domains import Domains
from netproof.bounds.graph.ascent import Params
from netproof.bounds.graph.batch import Batch
from netproof.bounds.linear.lined_graph import initial_slopes
from netproof.bounds.neurons.root import Root


@dataclass(frozen=True, eq=False)
class Slopes:
    """The slopes of one batch: for the output, and for each neuron that is bounded again."""

    output: Tensor  # (domain, U)
    neurons: dict[int, Tensor]  # by layer (domain, 2, K or 1, U')

    @classmethod
    def of_children(cls, root: Root, domains: Domains, batch: Batch) -> Slopes:
        """The parent's for the output; the root's own for each neuron, which are good wherever it is unstable."""
        neurons = {}
        for k, chosen in enumerate(batch.refresh):
            if chosen is not None:
                own = root.slopes[k]  # (2, U_k or 1, U')
                places = chosen.clamp(max=own.shape[1] - 1)
                neurons[k] = own[:, places].transpose(0, 1).float()
        return cls(domains.slopes.float(), neurons)

    @classmethod
    def fixed(cls, root: Root, domains: Domains, batch: Batch) -> Slopes:
        """CROWN's choice for the bounds at hand, the same in every pass."""
        every = initial_slopes(root.graph32.layers, domains.lower, domains.upper)
        again = [k for k, chosen in enumerate(batch.refresh) if chosen is not None]
        return cls(every, {k: every[:, None, None, : root.slopes[k].shape[2]].expand(-1, 2, -1, -1) for k in again})

    def params(self) -> Params:
        return [self.output, *self.neurons.values()]

    def with_params(self, params: Sequence[Tensor]) -> Slopes:
        return Slopes(params[0], dict(zip(self.neurons, params[1:], strict=True)))

    def select(self, index: Tensor) -> Slopes:
        return Slopes(self.output[index], {k: v[index] for k, v in self.neurons.items()})

    def double(self) -> Slopes:
        return Slopes(self.output.double(), {k: v.double() for k, v in self.neurons.items()})
