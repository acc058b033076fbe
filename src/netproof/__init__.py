"""netproof: does this network satisfy this property on a whole input set?

    import netproof
    verdict = netproof.verify(model, netproof.linf_ball(image, eps=2 / 255), label=3)
    verdict.proved, verdict.broken, verdict.witness, verdict.lower_bound, verdict.stats

    x, y = netproof.variables(model, region)
    verdict = netproof.verify(model, region, (y[3] > y[1] + 0.1) & (y[0] < 5))

Names are imported when they are first used, so that the command line answers `--help` without torch.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from netproof._version import __version__

if TYPE_CHECKING:
    from netproof.api import Progress, bounds, verify
    from netproof.core.deadline import Deadline
    from netproof.core.shown.progress_bar import progress_bar
    from netproof.core.verdict import Stats, Status, TensorValue, Verdict, Witness
    from netproof.dataset.certify import certify
    from netproof.dataset.engine import CertifyProgress
    from netproof.dataset.radius import Radius, largest_eps
    from netproof.dataset.result import Certification, ImageResult, ImageStatus
    from netproof.errors import DeviceError, ModelError, NetproofError, SpecError, UnsupportedOp, UsageError
    from netproof.model.load import load_network
    from netproof.model.network import Network
    from netproof.problem.ask.conditions import Condition, every, some, when
    from netproof.problem.ask.expressions import Expression, maximum, minimum
    from netproof.problem.ask.variables import runs, variables
    from netproof.problem.ask.vectors import Vector, between
    from netproof.problem.property import Property
    from netproof.problem.specs import InputRegion, box, l1_ball, l2_ball, linear_image, linf_ball
    from netproof.problem.vnnlib.reader import load_property
    from netproof.run.ranges import OutputBounds

__all__ = [
    "Certification",
    "CertifyProgress",
    "Condition",
    "Deadline",
    "DeviceError",
    "Expression",
    "ImageResult",
    "ImageStatus",
    "InputRegion",
    "ModelError",
    "NetproofError",
    "Network",
    "OutputBounds",
    "Progress",
    "Property",
    "Radius",
    "SpecError",
    "Stats",
    "Status",
    "TensorValue",
    "UnsupportedOp",
    "UsageError",
    "Vector",
    "Verdict",
    "Witness",
    "__version__",
    "between",
    "bounds",
    "box",
    "certify",
    "every",
    "l1_ball",
    "l2_ball",
    "largest_eps",
    "linear_image",
    "linf_ball",
    "load_network",
    "load_property",
    "maximum",
    "minimum",
    "progress_bar",
    "runs",
    "some",
    "variables",
    "verify",
    "when",
]

_HOMES = {
    "Certification": "dataset.result",
    "CertifyProgress": "dataset.engine",
    "Condition": "problem.ask.conditions",
    "Deadline": "core.deadline",
    "DeviceError": "errors",
    "Expression": "problem.ask.expressions",
    "ImageResult": "dataset.result",
    "ImageStatus": "dataset.result",
    "InputRegion": "problem.specs",
    "ModelError": "errors",
    "NetproofError": "errors",
    "Network": "model.network",
    "OutputBounds": "run.ranges",
    "Progress": "api",
    "Property": "problem.property",
    "Radius": "dataset.radius",
    "SpecError": "errors",
    "Stats": "core.verdict",
    "Status": "core.verdict",
    "TensorValue": "core.verdict",
    "UnsupportedOp": "errors",
    "UsageError": "errors",
    "Vector": "problem.ask.vectors",
    "Verdict": "core.verdict",
    "Witness": "core.verdict",
    "between": "problem.ask.vectors",
    "box": "problem.specs",
    "certify": "dataset.certify",
    "every": "problem.ask.conditions",
    "l1_ball": "problem.specs",
    "l2_ball": "problem.specs",
    "largest_eps": "dataset.radius",
    "linear_image": "problem.specs",
    "linf_ball": "problem.specs",
    "load_network": "model.load",
    "load_property": "problem.vnnlib.reader",
    "maximum": "problem.ask.expressions",
    "minimum": "problem.ask.expressions",
    "progress_bar": "core.shown.progress_bar",
    "runs": "problem.ask.variables",
    "some": "problem.ask.conditions",
    "variables": "problem.ask.variables",
    "verify": "api",
    "when": "problem.ask.conditions",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


class _Package(ModuleType):
    """`netproof.bounds` is the function, although the subpackage that computes bounds has the same name.

    The import system sets a subpackage as an attribute of its parent; the setter lets that pass.
    `from netproof.bounds import ...` is not affected.
    """

    if not TYPE_CHECKING:

        @property
        def bounds(self):
            return importlib.import_module(f"{__name__}.api").bounds

        @bounds.setter
        def bounds(self, subpackage):
            pass


sys.modules[__name__].__class__ = _Package
