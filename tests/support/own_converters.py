"""The converters that netproof itself enters, before any test module adds one: conftest imports this first."""

from __future__ import annotations

from netproof.model.onnx import operators  # noqa: F401 (it enters them)
from netproof.model.onnx.context import CONVERTERS

OWN = dict(CONVERTERS)
