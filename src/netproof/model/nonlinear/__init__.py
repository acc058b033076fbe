"""The nonlinear ops, by kind. Their relaxations live in `netproof.relax`."""

from netproof.model.nonlinear.hinge import LeakyRelu, Relu

__all__ = ["LeakyRelu", "Relu"]
