"""A verdict in plain words, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from netproof.core.reasons import CONTRADICTION, CONTRADICTORY, EMPTY, INTERRUPTED, UNSHOWN
from netproof.run.record import Record

if TYPE_CHECKING:
    from netproof.core.shown.seen import Seen

# By verdict, the word that a table shows and its colour.
SHORT = {
    "unsat": ("proved", "green"),
    "sat": ("broken", "red"),
    "timeout": ("timeout", "yellow"),
    "unknown": ("undecided", "yellow"),
}


def summary(
    record: Record,
    *,
    method: str,
    device: str,
    saved: Sequence[str] = (),
    seen: Seen | None = None,
    on_terminal: bool = False,
) -> str:
    """Say a verdict, what it means, and what it took; of a counterexample also how it looks.

    saved: files that hold the counterexample; on_terminal: whether stdout is one, and so has none of its numbers.
    """
    verdict, reason = record.verdict, record.reason
    if verdict == "unsat":
        if reason in (EMPTY, CONTRADICTORY):
            what = "the input set is empty" if reason == EMPTY else "the assertions contradict each other"
            head = f"PROVED: but {what}, which says nothing (warning: check the spec)"
        else:
            head = "PROVED: holds for every input"
    elif verdict == "sat":
        where = f"counterexample saved to {' and '.join(saved)}" if saved else "counterexample found and replayed"
        head = f"BROKEN: {where}" + (f" ({reason})" if reason else "")
        head += f"\n  {seen.words}" if seen is not None else ""
        head += "" if saved or not on_terminal else "\n  --witness FILE saves it, and a pipe gets it"
    elif record.contradiction is not None and reason == CONTRADICTION:
        kept = record.contradiction["saved"]
        where = f" with the folder {kept}" if kept else " (the case could not be saved)"
        head = f"CONTRADICTION: {record.contradiction['what']}; this is a bug in netproof: please report it{where}"
    else:
        head = f"UNDECIDED: {reason or 'no proof and no counterexample'}; {advice(record, method, device)}"
    return f"{head}\n{figures(record, method=method, device=device)}"


def figures(record: Record, *, method: str, device: str) -> str:
    parts = [f"{record.seconds['total']:.2f} s", f"{record.domains} domains"]
    if record.lower_bound is not None:
        parts.append(f"proved bound {record.lower_bound:.6g}")
    if record.upper_bound is not None:
        parts.append(f"best value found {record.upper_bound:.6g}")
    return "  " + ", ".join([*parts, f"method {method}", f"device {device}"])


def advice(record: Record, method: str, device: str) -> str:
    """Say what to try next."""
    if record.reason == INTERRUPTED:
        return "run it again, from the start, for an answer"
    if UNSHOWN in record.reason:
        return "give such inputs as single numbers, or as ranges that hold a number of that type"
    tries = []
    if "memory" in record.reason:
        tries.append("a smaller batch (--set batch=N) or more memory")
        tries += [] if device == "cpu" else ["--device cpu"]
    if record.verdict == "timeout":
        tries.append("a longer --timeout")
    if device == "cpu":
        tries.append("a GPU (--device cuda)")
    tries.append("a smaller input set" if method == "auto" else "--method auto, or a smaller input set")
    return "try " + ", or ".join(tries)
