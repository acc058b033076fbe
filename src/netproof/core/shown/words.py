"""A verdict in few words, for programs that print it and for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from netproof.core.shown.picture import embedded, png_of

if TYPE_CHECKING:
    from netproof.core.verdict import Verdict

WORDS = {"unsat": "proved", "sat": "broken", "timeout": "timeout", "unknown": "undecided"}
UNNAMED = ("verdict", "reason", "time")  # they say themselves what they are


def facts(verdict: Verdict) -> dict[str, str]:
    """Return what was found, by what it is: the verdict, the margin, the counterexample, the reason, the time."""
    found = {"verdict": WORDS[verdict.status]}
    low, high = verdict.lower_bound, verdict.upper_bound
    if verdict.proved and low is not None and low > 0:  # a proof with a margin of 0 is a proof
        found["margin"] = f">= {low:.3g}"
    elif not verdict.broken and not verdict.proved and (low is not None or high is not None):
        ends = "-inf" if low is None else f"{low:.3g}", "inf" if high is None else f"{high:.3g}"
        found["margin"] = "in [{}, {}]".format(*ends)
    if verdict.witness is not None:
        found["counterexample"] = f"of shape {list(verdict.witness.given.shape)}"
    if verdict.reason and verdict.reason != verdict.status:
        found["reason"] = verdict.reason
    found["time"] = f"{verdict.stats.seconds.get('total', 0.0):.2g} s"
    return found


def line(verdict: Verdict) -> str:
    """Return the facts in one line."""
    words = [text if name in UNNAMED else f"{name} {text}" for name, text in facts(verdict).items()]
    return f"Verdict({', '.join(words)})"


def page(verdict: Verdict) -> str:
    """Return the facts as a table in HTML; a counterexample that is an image is drawn below them."""
    style = "style='text-align:left'"
    rows = "".join(
        f"<tr><th scope='row' {style}>{escape(name)}</th><td {style}>{escape(text)}</td></tr>"
        for name, text in facts(verdict).items()
    )
    picture = None if verdict.witness is None else png_of(verdict.witness.given)
    drawn = "" if picture is None else f"<tr><td colspan='2'>{embedded(picture)}</td></tr>"
    return f"<table>{rows}{drawn}</table>"
