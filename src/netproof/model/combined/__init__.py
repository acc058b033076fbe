"""Networks made of networks: several as one, and one behind a linear map of its input."""

from netproof.model.combined.about import about
from netproof.model.combined.mapped import LinearMap, Mapped
from netproof.model.combined.merged import Member, Merged, merged_graph
from netproof.model.network import Network

AnyNetwork = Network | Merged | Mapped

__all__ = ["AnyNetwork", "LinearMap", "Mapped", "Member", "Merged", "about", "merged_graph"]
