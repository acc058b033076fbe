"""The paper's rivals, declared as any package could declare methods: an entry point of `netproof.methods`."""

from __future__ import annotations

from netproof.methods.declared import ATTACK_AFTER, BETTER, LEAF_LP, LP_TURNS, PROOF, batch, lirpa, rates, steps
from netproof.methods.options import Field
from netproof.methods.registry import MethodInfo

_BUILD = "netproof.paper.rivals.build"


def _rebound(default: bool) -> Field:
    return Field("rebound", bool, default, "bound the neurons after a split again, by fixed slopes")


def _parallel(default: bool) -> Field:
    return Field(
        "parallel", bool, default, "bound the root's neurons by parallel slopes, as the original does, not CROWN's"
    )


_BDD = (
    batch(),
    *steps(200, 0, 100),
    _rebound(False),
    _parallel(False),
    *rates(0.2, 0.1, ", of the size of a layer's coefficients"),
    Field("proximal", bool, False, "proximal steps (Frank-Wolfe) instead of supergradients (Adam)"),
    Field("original", bool, False, "branch by BaBSR as first published, on one neuron per sub-domain and round"),
    LEAF_LP,
    LP_TURNS,
    ATTACK_AFTER,
)
_WEAK = Field("weak", float, 0.2, "a choice of the network worth less is compared with BaBSR's, 0: none", 0.0, 1.0)
_WEIGHTS = Field("weights", str, None, "a .npz file of the original's own tensors (none: netproof's graph network)")
_BABSR_LP = (
    _rebound(True),
    _parallel(True),
    ATTACK_AFTER,
)
_GNN = (*_BABSR_LP, _WEAK, _WEIGHTS)
_LIRPA_GNN = (*(field for field in lirpa(**BETTER) if field.name != "gains_only"), _WEAK)
_MIP = (
    *PROOF,
    _parallel(True),
    Field("minimise", bool, False, "let the solver look for the minimum, as MIPplanet, instead of for a violation"),
)


def _rival(name: str, summary: str, fields: tuple[Field, ...], function: str) -> MethodInfo:
    """Declare a method that looks for counterexamples only where it is asked to, as the paper's do."""
    return MethodInfo(name, summary, fields, f"{_BUILD}:{function}", attacks=False)


_LEARNS = "the same, and it goes on learning during the run"
METHODS = (
    _rival("bdd", "Lagrangian decomposition, batched, with BaBSR", _BDD, "bdd"),
    _rival("babsr-lp", "one sub-domain at a time, each bounded by its LP", _BABSR_LP, "babsr_lp"),
    _rival("gnn", "as babsr-lp, branching by a graph network trained on strong branching", _GNN, "gnn"),
    _rival("gnn-online", _LEARNS, _GNN, "gnn_online"),
    _rival("lirpa-gnn", "as lirpa-tight, branching by that graph network", _LIRPA_GNN, "lirpa_gnn"),
    _rival("lirpa-gnn-online", _LEARNS, _LIRPA_GNN, "lirpa_gnn_online"),
    _rival("mip", "a MIP solver; what it claims is then proved by beta, or is unknown", _MIP, "mip"),
)
