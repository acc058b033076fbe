"""The checker is a distribution of its own, which netproof needs for certificates alone."""

from __future__ import annotations

from netproof._version import __version__
from netproof.errors import UsageError


def require_npcheck() -> None:
    """Refuse where npcheck is missing or of another version: both speak of one format."""
    remedy = "in a checkout of netproof: pip install ./checker"
    try:
        from npcheck import __version__ as found
    except ImportError:
        raise UsageError(f"certificates need npcheck {__version__}, which is not installed", remedy=remedy) from None
    if found != __version__:
        raise UsageError(f"certificates need npcheck {__version__}, and {found} is installed", remedy=remedy)
