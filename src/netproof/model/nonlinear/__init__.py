"""The nonlinear ops, by kind. Their relaxations live in `netproof.relax`."""

from netproof.model.nonlinear.hinge import LeakyRelu, Relu
from netproof.model.nonlinear.product import Product

__all__ = ["LeakyRelu", "Product", "Relu"]
