"""What numpy asks of expressions and conditions: operators are theirs, functions are refused with the way to say it."""

from __future__ import annotations

from typing import Any

import numpy as np

from netproof.errors import UsageError

# By the function that numpy calls for an operator: the methods that are asked, of the left side and of the right one.
OPERATORS: dict[Any, tuple[str, str]] = {
    np.add: ("__add__", "__radd__"),
    np.subtract: ("__sub__", "__rsub__"),
    np.multiply: ("__mul__", "__rmul__"),
    np.true_divide: ("__truediv__", "__rtruediv__"),
    np.power: ("__pow__", "__rpow__"),
    np.matmul: ("__matmul__", "__rmatmul__"),
    np.less: ("__lt__", "__gt__"),
    np.less_equal: ("__le__", "__ge__"),
    np.greater: ("__gt__", "__lt__"),
    np.greater_equal: ("__ge__", "__le__"),
    np.equal: ("__eq__", "__eq__"),
    np.not_equal: ("__ne__", "__ne__"),
    np.bitwise_and: ("__and__", "__rand__"),
    np.bitwise_or: ("__or__", "__ror__"),
    np.bitwise_xor: ("__xor__", "__rxor__"),
    np.negative: ("__neg__", ""),
    np.absolute: ("__abs__", ""),
    np.invert: ("__invert__", ""),
}
REMEDIES = {
    "maximum": "write netproof.maximum(a, b)",
    "minimum": "write netproof.minimum(a, b)",
    "max": "write y.max() or netproof.maximum(y)",
    "amax": "write y.max() or netproof.maximum(y)",
    "min": "write y.min() or netproof.minimum(y)",
    "amin": "write y.min() or netproof.minimum(y)",
    "sum": "write y.sum()",
    "mean": "write y.sum() / y.size",
    "argmax": "write y.argmax()",
    "argmin": "write y.argmin()",
    "dot": "write weights @ y",
    "square": "write e**2",
    "clip": "write netproof.minimum(netproof.maximum(e, low), high)",
    "where": "write netproof.when(condition, then) & netproof.when(~condition, otherwise)",
    "logical_and": "write (a) & (b)",
    "logical_or": "write (a) | (b)",
    "logical_not": "write ~(a)",
    "all": "write netproof.every(v > 0 for v in y)",
    "any": "write netproof.some(v > 0 for v in y)",
}
OTHERWISE = "use +, -, *, /, **, @, abs(e), netproof.maximum and netproof.minimum, or compute it in the network"


class OfNumpy:
    """Answers numpy: an array or a number beside it is taken by its own operators."""

    __slots__ = ()

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **more: Any) -> Any:
        names = OPERATORS.get(function)
        if names is None or method != "__call__" or more or len(inputs) > 2:
            raise refused(f"numpy.{function.__name__}{'' if method == '__call__' else '.' + method}", function.__name__)
        for mine, name, other in zip(inputs, names, (inputs[1:], inputs[:1]), strict=False):
            asked = getattr(mine, name, None) if isinstance(mine, OfNumpy) else None
            found = NotImplemented if asked is None else asked(*other)
            if found is not NotImplemented:
                return found
        raise refused(f"numpy.{function.__name__}", function.__name__)

    def __array_function__(self, function: Any, types: Any, args: Any, more: Any) -> Any:
        raise refused(f"numpy.{function.__name__}", function.__name__)

    def _as_float(self, *_: Any) -> Any:
        raise refused("float, int, round and math's functions", "")

    __float__ = __int__ = __complex__ = __round__ = __floor__ = __ceil__ = __trunc__ = _as_float


def refused(what: str, name: str) -> UsageError:
    """Return the error of a function that was called with an expression or a condition."""
    verb = "take" if " and " in what else "takes"
    return UsageError(f"{what} {verb} numbers, not what stands for them", remedy=REMEDIES.get(name, OTHERWISE))
