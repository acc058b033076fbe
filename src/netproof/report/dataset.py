"""The page of a certified data set: its accuracies, every image, and those that failed as pictures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from netproof.dataset.result import Certification, ImageStatus, percent
from netproof.dataset.store import COLUMNS, Kept
from netproof.report.files import write_text
from netproof.report.page import Picture, Section, Table, page

PICTURES = 200  # failures that are shown as pictures: each is some kilobytes of the page


def write_page(found: Certification, kept: Mapping[int, Kept], path: Path, *, title: str) -> Path:
    """Write the page, with everything that it shows inside; return its path."""
    total = max(1, len(found))
    shares = [(name, percent(getattr(found, name))) for name in ("clean", "attacked", "certified")]
    statuses = [(name, str(count), percent(count / total)) for name, count in found.counts.items()]
    low, high = found.bracket
    text = (
        f"{len(found)} images within eps = {found.eps} (norm {found.norm}). The robust accuracy is between"
        f" {percent(low)} and {percent(high)}: at least what is certified, at most what withstood the attack."
    )
    sections = [
        Section(
            "Accuracy", tables=[Table(("accuracy", "share"), shares), Table(("status", "images", "share"), statuses)]
        ),
        _failures(found, kept),
        Section("Images", tables=[_table(kept)]),
    ]
    return write_text(path, page(title, sections, text=text))


def _failures(found: Certification, kept: Mapping[int, Kept]) -> Section:
    failed = [image for image in found if image.status in (ImageStatus.BROKEN, ImageStatus.MISREAD)]
    drawn = [image for image in failed if kept[image.index].picture][:PICTURES]
    pictures = [
        Picture(
            kept[image.index].picture,
            f"image {kept[image.index].name}, label {image.label}: {image.status}, read as {image.read_as}",
        )
        for image in drawn
    ]
    more = f" The first {len(drawn)} are shown." if len(drawn) < len(failed) and drawn else ""
    words = f"{len(failed)} images are misread, or broken by a counterexample that onnxruntime replayed.{more}"
    return Section("Failures", text=words if failed else "None.", pictures=pictures)


def _table(kept: Mapping[int, Kept]) -> Table:
    rows = [["" if cell is None else _cell(cell) for cell in one.row] for _, one in sorted(kept.items())]
    place = COLUMNS.index("status")
    marked = frozenset((k, place) for k, row in enumerate(rows) if row[place] in ("broken", "misread"))
    return Table(COLUMNS, rows, names=2, caption="Every image", folded=len(rows) > PICTURES, marked=marked)


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
