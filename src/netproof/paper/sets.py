"""The five sets of the paper: their properties, the kind of their boxes, and what was published of them.

Each set comes with two kinds of boxes. Equation (10) and GNN_branching have x ± ε; the authors' released code clips
that to valid pixels, which leaves less to prove. Published figures are of x ± ε, so they stand beside no clipped box.
The kind is read off the boxes themselves, not off a folder's name: x ± ε is as wide in every input, a clipped box is
not.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from netproof.campaign.instances import Instance, read_bytes
from netproof.errors import UsageError

if TYPE_CHECKING:
    from netproof.problem.property import Box

SETS = {
    "oval_base_easy": "Base, easy",
    "oval_base_med": "Base, medium",
    "oval_base_hard": "Base, hard",
    "oval_wide": "Wide",
    "oval_deep": "Deep",
}
UNCLIPPED = "_unclipped"  # the end of a folder's name
KINDS = ("unclipped", "clipped", "both")  # that can be asked for
LIMIT = 3600.0  # seconds: the paper's; what took longer is timed out in its tables
SAME = 1e-5  # of a width: more than the digits of a file lose, less than what clipping takes from a pixel
PUBLISHED_FILE = "published.csv"
# Its columns by the paper's name of the method.
PUBLISHED = {"BaBSR": "babsr", "MIPplanet": "mipplanet", "GNN": "gnn", "GNN-online": "gnn_online"}


@dataclass(frozen=True)
class Boxes:
    """How many boxes there are, and how many of them are clipped."""

    count: int
    clipped: int

    @property
    def kind(self) -> str:
        """Return the kind as CSV has it."""
        return f"clipped in {self.clipped} of {self.count}" if self.clipped else "unclipped"

    @property
    def words(self) -> str:
        """Return the kind as pages have it."""
        return f"boxes {self.kind}" if self.clipped else "boxes x ± ε"


@dataclass(frozen=True)
class Published:
    """One published run; branches are not known of one that timed out."""

    solved: bool
    seconds: float
    branches: float | None


@dataclass(frozen=True)
class PaperSet:
    """Properties of one set, with boxes of one kind."""

    name: str  # of the folder
    instances: Sequence[Instance]
    boxes: Boxes
    published: Mapping[str, Sequence[Published]] = field(default_factory=dict)  # by method, for the instances in order

    @property
    def base(self) -> str:
        """Return the key of SETS, whatever the kind."""
        return base_name(self.name)

    @property
    def title(self) -> str:
        """Return the name for pages; it always says the kind."""
        return f"{SETS[self.base]}, {self.boxes.words}"

    @property
    def short(self) -> str:
        """Return the name for an axis."""
        return f"{SETS[self.base]}{', clipped' if self.boxes.clipped else ''}".replace(", ", ",\n")


def base_name(name: str) -> str:
    """Return the set's name without its kind."""
    return name.removesuffix(UNCLIPPED)


def find_sets(
    data: str | Path,
    names: Sequence[str],
    first: int | None = None,
    *,
    boxes: str | None = None,
    published: bool | Collection[str] = True,
) -> dict[str, PaperSet]:
    """Return by folder the (first) instances of each set in `data`, with what was published where that is of them.

    boxes: one of KINDS. Without a word those that are not clipped, or what there is. published: all of it, or none, or
    that of some of PUBLISHED, where the file is there.
    """
    from netproof.campaign.instances import read_folder

    data = Path(data)
    if not data.is_dir():
        raise UsageError("--data: no such folder", file=str(data), remedy="give the folder that holds oval_base_easy …")
    if first is not None and first < 1:
        raise UsageError(f"--first: {first} is too few", remedy="give 1 or more")
    if boxes is not None and boxes not in KINDS:
        raise UsageError(f"--boxes: unknown kind {boxes!r}", remedy="one of " + ", ".join(KINDS))
    found = {}
    for name in dict.fromkeys(folder for one in names for folder in _folders(data, one, boxes)):
        instances = read_folder(data / name)[:first]
        kind = boxes_of(instances)
        found[name] = PaperSet(name, instances, kind, {} if kind.clipped else _published_of(instances, published))
    return found


def _published_of(instances: Sequence[Instance], wanted: bool | Collection[str]) -> Mapping[str, Sequence[Published]]:
    from netproof.core.files import find_file

    folder = instances[0].folder
    if wanted is True:
        return read_published(instances)
    if not wanted or folder is None or not find_file(folder / PUBLISHED_FILE):
        return {}
    return {name: runs for name, runs in read_published(instances).items() if name in wanted}


def _folders(data: Path, name: str, boxes: str | None) -> list[str]:
    """Return the folders that a set's name means."""
    from netproof.core.files import find_file

    base = base_name(name)
    if base not in SETS:
        raise UsageError(f"--set-name: unknown set {name!r}", remedy="one of " + ", ".join(SETS))
    there = [folder for folder in (base + UNCLIPPED, base) if find_file(data / folder / "instances.csv")]
    if boxes is None:
        wanted = [name if name != base else next(iter(there), base)]
    else:
        wanted = [base + UNCLIPPED] * (boxes != "clipped") + [base] * (boxes != "unclipped")
    for folder in wanted:
        if folder not in there:
            remedy = f"give a folder with {', '.join(SETS)} in it, or choose by --set-name and --boxes"
            raise UsageError(f"--data: no {folder}/instances.csv in it", file=str(data), remedy=remedy)
    return wanted


def boxes_of(instances: Sequence[Instance]) -> Boxes:
    """Read every property and count the boxes that are not as wide in every input."""
    return Boxes(len(instances), sum(is_clipped(instance.vnnlib) for instance in instances))


def is_clipped(spec: Path) -> bool:
    """Say whether a property has a box that is not as wide in every input."""
    from netproof.problem.vnnlib.reader import load_property

    return any(_is_clipped(disjunct.box) for disjunct in load_property(spec).disjuncts)


def _is_clipped(box: Box) -> bool:
    lower, upper = (side.near for side in box.rounded)
    width = upper - lower
    return bool(width.min() < (1 - SAME) * width.max())


def read_published(instances: Sequence[Instance]) -> dict[str, list[Published]]:
    """Return by the paper's name of the method the published runs of these instances, which share a folder."""
    folder = instances[0].folder
    assert folder is not None
    file = folder / PUBLISHED_FILE
    try:
        rows = {row["vnnlib"]: row for row in csv.DictReader(read_bytes(file).decode("utf-8-sig").splitlines())}
        wanted = [rows[instance.names[1]] for instance in instances]
        return {name: [_published(row, column) for row in wanted] for name, column in PUBLISHED.items()}
    except (KeyError, ValueError, TypeError) as error:
        raise UsageError(
            f"not the published figures of these instances: {error} is missing or is no figure",
            file=str(file),
            remedy="its columns are vnnlib and, for babsr, mipplanet, gnn and gnn_online, result, branches and s",
        ) from error


def _published(row: dict[str, str], column: str) -> Published:
    """Read one run; past the paper's limit it is timed out, as in the paper's tables, whatever came of it later."""
    branches = row.get(f"{column}_branches", "") if column != "mipplanet" else ""
    seconds = float(row[f"{column}_s"])
    solved = row[f"{column}_result"].lower() != "timeout" and seconds <= LIMIT
    return Published(solved, min(seconds, LIMIT), float(branches) if branches and solved else None)
