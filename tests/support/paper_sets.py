"""A small stand-in for the five OVAL sets: folders of instances with published figures beside them."""

from __future__ import annotations

from pathlib import Path

from netproof.paper.sets import SETS
from support.campaign import make_set

HEADER = (
    "vnnlib,babsr_result,babsr_branches,babsr_s,mipplanet_result,mipplanet_s,"
    "gnn_result,gnn_branches,gnn_s,gnn_online_result,gnn_online_branches,gnn_online_s"
)
LINE = "False,40,100.0,timeout,3600.1,False,20,50.0,False,18,45.0"
STUCK = "Timeout,,300.0,timeout,3600.1,False,30,70.0,False,22,65.0"


def make_published(folder: Path, names: list[str]) -> None:
    """Two kinds of line in turn: everything solved, and BaBSR timed out without a count."""
    lines = [f"{name},{(LINE, STUCK)[i % 2]}" for i, name in enumerate(names)]
    (folder / "published.csv").write_text("\n".join([HEADER, *lines]) + "\n")


def box(widths: tuple[float, ...]) -> str:
    """A property over a box around 0."""
    inputs = [
        f"(declare-const X_{i} Real)\n(assert (>= X_{i} {-w / 2}))\n(assert (<= X_{i} {w / 2}))\n"
        for i, w in enumerate(widths)
    ]
    return "".join(inputs) + "(declare-const Y_0 Real)\n(assert (<= Y_0 0.0))\n"


def make_sets(
    data: Path, *words: str, names: tuple[str, ...] = tuple(SETS), widths: tuple[float, ...] = (0.2, 0.2)
) -> Path:
    """A folder with a set for each name; `words` say what the stand-in engine does (see support/campaign.py).

    widths: of the boxes; not all the same for clipped ones.
    """
    for name in names:
        folder = make_set(data / name, *words)
        for file in folder.glob("*.vnnlib"):
            file.write_text(file.read_text() + box(widths))
        make_published(folder, [line.split(",")[1] for line in (folder / "instances.csv").read_text().split()])
    return data
