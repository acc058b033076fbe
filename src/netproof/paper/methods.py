"""The paper's rivals, declared as any package could declare methods: an entry point of `netproof.methods`."""

from __future__ import annotations

from netproof.methods.declared import ATTACK_AFTER, LEAF_LP, LP_TURNS, PROOF, batch, lirpa, rates, rebound, steps
from netproof.methods.options import Field
from netproof.methods.registry import MethodInfo

_BUILD = "netproof.paper.rivals.build"
_BDD = (
    batch(),
    *steps(200, 0, 100),
    rebound(0),
    *rates(0.2, 0.1, ", of the size of a layer's coefficients"),
    Field("proximal", bool, False, "proximal steps (Frank-Wolfe) instead of supergradients (Adam)"),
    LEAF_LP,
    LP_TURNS,
    ATTACK_AFTER,
)
_WEAK = Field("weak", float, 0.2, "a choice of the network worth less is compared with BaBSR's, 0: none", 0.0, 1.0)
_BABSR_LP = (
    Field("rebound", bool, True, "bound the neurons after a split again, by fixed slopes"),
    Field("parallel", bool, True, "bound the root's neurons by parallel slopes, as the original does, not by CROWN's"),
    ATTACK_AFTER,
)
_GNN = (*_BABSR_LP, _WEAK)
_LIRPA_GNN = (*lirpa(), _WEAK)

METHODS = (
    MethodInfo("bdd", "Lagrangian decomposition, batched, with BaBSR", _BDD, f"{_BUILD}:bdd"),
    MethodInfo("babsr-lp", "one sub-domain at a time, each bounded by its LP", _BABSR_LP, f"{_BUILD}:babsr_lp"),
    MethodInfo("gnn", "as babsr-lp, branching by a graph network trained on strong branching", _GNN, f"{_BUILD}:gnn"),
    MethodInfo("gnn-online", "the same, and it goes on learning during the run", _GNN, f"{_BUILD}:gnn_online"),
    MethodInfo("lirpa-gnn", "as lirpa, branching by that graph network", _LIRPA_GNN, f"{_BUILD}:lirpa_gnn"),
    MethodInfo(
        "lirpa-gnn-online",
        "the same, and it goes on learning during the run",
        _LIRPA_GNN,
        f"{_BUILD}:lirpa_gnn_online",
    ),
    MethodInfo("mip", "a MIP solver; what it claims is then proved by beta, or is unknown", PROOF, f"{_BUILD}:mip"),
)
