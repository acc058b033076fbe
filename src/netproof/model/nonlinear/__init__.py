"""The nonlinear ops, by kind. Their relaxations live in `netproof.relax`."""

from netproof.model.nonlinear.hinge import LeakyRelu, Relu
from netproof.model.nonlinear.product import Product
from netproof.model.nonlinear.softmax import SoftmaxEntry

__all__ = ["LeakyRelu", "Product", "Relu", "SoftmaxEntry"]
