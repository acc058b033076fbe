"""What an answer about networks is about: the graph that was bounded, and where each network came from."""

from __future__ import annotations

from netproof.core.about import About, Subject
from netproof.model.combined.mapped import Mapped
from netproof.model.combined.merged import Merged
from netproof.model.network import Network


def about(network: Network | Merged | Mapped) -> About:
    """Hash the graph, once, and name the networks that it was made of."""
    if isinstance(network, Merged):
        subjects = tuple(_subject(member.name, member.network) for member in network.members)
    else:
        subjects = (_subject("model", network.network if isinstance(network, Mapped) else network),)
    return About(network.graph.sha256, subjects)


def _subject(name: str, network: Network) -> Subject:
    if network.module is not None:
        return Subject(name, None, module=network.module)
    return Subject(name, network.sha256, tuple(file.sha256 for file in network.external))
