"""Ways in which forward() depends on the values of its input that a trace does not show, or shows wrongly.

Each module is a linear map that answers label 0, but near one point, its pocket, where it answers label 1. It finds out
in a way of its own that it is there. A trace that misses that way is the linear map, and `unsat` is proved of it.

`h` is 0 outside of the pocket and 1 at its centre, and `step(h)` is 0 or 1. A function of RARE says whether the input
lies in the pocket, one of LOST returns `h` or something like it, one of ASKED says whether forward() is being traced.
CALLS have no pocket: their answers differ from call to call. INSTALLED change a module from outside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from model.value_reads.asked import ASKED
from model.value_reads.calls import CALLS, counted_in_a_closure
from model.value_reads.graphs import GRAPHS
from model.value_reads.installed import INSTALLED
from model.value_reads.lost import COPIES
from model.value_reads.net import INSIDE, SWING, Net
from model.value_reads.rare import RARE

LOST = COPIES | GRAPHS


def _rare(decide: Callable[[Any, Tensor], Any]) -> Callable[[Any, Tensor], Tensor]:
    return lambda net, x: net.linear(x).flip(-1) if decide(net, net.near(x)) else net.linear(x)


def _lost(value: Callable[[Any, Tensor], Tensor]) -> Callable[[Any, Tensor], Tensor]:
    return lambda net, x: net.linear(x) + SWING * value(net, net.near(x))


def _asked(someone_looks: Callable[[Tensor], Any]) -> Callable[[Any, Tensor], Tensor]:
    def body(net: Any, x: Tensor) -> Tensor:
        h = net.near(x)
        return net.linear(x) + SWING * (h * 0 if someone_looks(h) else h)

    return body


def _chosen(someone_looks: Callable[[Tensor], Any]) -> Callable[[Any, Tensor], Tensor]:
    """Return the same without a branch: the answer chooses one of two tensors."""

    def body(net: Any, x: Tensor) -> Tensor:
        h = net.near(x)
        return net.linear(x) + SWING * h * net.choices[bool(someone_looks(h))]

    return body


def _installed(install: Callable[[Net], Any], centre: tuple[float, float]) -> Net:
    net = Net(centre, lambda net, x: net.linear(x))
    install(net)
    return net


BODIES: dict[str, Callable[[Any, Tensor], Tensor]] = {
    **{f"rare-{name}": _rare(decide) for name, decide in RARE.items()},
    **{f"lost-{name}": _lost(value) for name, value in LOST.items()},
    **{f"asked-{name}": _asked(question) for name, question in ASKED.items()},
    **{f"chosen-{name}": _chosen(question) for name, question in ASKED.items()},
    **{f"calls-{name}": body for name, body in CALLS.items()},
}

NAMES = (*BODIES, "calls-counter-closure", *(f"installed-{name}" for name in INSTALLED))


def made(name: str, centre: tuple[float, float] = INSIDE) -> Net:
    """Make a module that answers label 1 at its centre, and label 0 nearly everywhere else."""
    kind, _, rest = name.partition("-")
    if kind == "installed":
        return _installed(INSTALLED[rest], centre).eval()
    body = counted_in_a_closure() if name == "calls-counter-closure" else BODIES[name]
    return Net(centre, body).eval()
