"""The one exception of this package."""

from __future__ import annotations


class Refused(Exception):
    """Say in one line what is not accepted, where it stands, and, where that is sensible, what would help."""
