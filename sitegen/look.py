"""The colours of figures, in their light and dark versions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """Colours of one version."""

    name: str
    ink: str
    faint: str
    good: str
    bad: str
    cold: str


LOOKS = (
    Look("light", "#1f2933", "#c7ced6", "#00796b", "#c4501b", "#3b5bdb"),
    Look("dark", "#e6e9ee", "#4a525e", "#4fc3b0", "#ff9a62", "#91a7ff"),
)
