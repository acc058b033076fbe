"""The page of a certified data set: its accuracies, every image, and those that failed as pictures."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

from netproof.certificate.state import Certificate
from netproof.dataset.result import FAILURES, Certification, ImageResult, percent
from netproof.dataset.store import COLUMNS, COUNTEREXAMPLES, Kept, counterexample
from netproof.report.explorer import Column, Pictures, number_column, plain_table, text_column
from netproof.report.files import write_csv, write_text
from netproof.report.latex import latex
from netproof.report.page import Explorer, Section, Table, page

PICTURES, BYTES = 500, 8_000_000  # failures that are shown as pictures, and the room that they may take in the page
ORDER = ("proved", "open", "broken", "misread")
FILES = (
    ("results.csv", "every image"),
    ("accuracy.csv", "the accuracies"),
    ("accuracy.tex", "the same for LaTeX"),
    (f"{COUNTEREXAMPLES}/", "the counterexample of each broken image, as NumPy's .npy"),
)


def write_page(
    found: Certification,
    kept: Mapping[int, Kept],
    path: Path,
    *,
    title: str,
    facts: Sequence[tuple[str, str]] = (),
    again: str = "",
) -> Path:
    """Write the page, with everything that it shows inside, and the tables beside it; return its path.

    facts: what stands at its top, such as the machine and the command. again: the command that asks about one image,
    up to its number.
    """
    low, high = found.bracket
    if low == high:
        accuracy = f"{percent(low)}: every image is decided"
    else:
        sides = "at least what is certified, at most what withstood the attack"
        accuracy = f"between {percent(low)} and {percent(high)}: {sides}"
    count = f"{len(found)} image{'s' * (len(found) != 1)}"
    text = f"{count} within eps = {found.eps} (norm {found.norm}). The robust accuracy is {accuracy}."
    tables = [_accuracies(found), _statuses(found)]
    shown = [one for _, one in sorted(kept.items())]
    explorer = _explorer(shown, path.parent, again)
    links = [(name, what) for name, what in FILES if not name.endswith("/") or (path.parent / name).is_dir()]
    sections = [
        Section("Accuracy", tables=tables),
        Section("Images", text=_failures(found, shown, len(explorer.data["pictures"])), explorer=explorer),
        Section("Files", "Beside this page lie:", links=links),
    ]
    write_csv(path.with_name("accuracy.csv"), [tables[0].header, *tables[0].rows])
    write_text(path.with_name("accuracy.tex"), latex(tables[0]))
    return write_text(path, page(title, sections, text=text, facts=facts))


def _accuracies(found: Certification) -> Table:
    rows = []
    for name in ("clean", "attacked", "certified"):
        share = getattr(found, name)
        rows.append((name, str(round(share * len(found))), percent(share)))
    return Table(("accuracy", "images", "share"), rows)


def _statuses(found: Certification) -> Table:
    total = max(1, len(found))
    return Table(
        ("status", "images", "share"),
        [(name, str(found.counts[name]), percent(found.counts[name] / total)) for name in ORDER],
    )


def _failures(found: Certification, shown: Sequence[Kept], drawn: int) -> str:
    failed = [image for image in found if image.status in FAILURES]
    if not failed:
        return "No image is misread, and none is broken."
    more = f" The first {drawn} of them are drawn." if drawn < sum(bool(_drawn(one)) for one in shown) else ""
    return f"{len(failed)} images are misread, or broken by a counterexample that onnxruntime replayed.{more}"


def _drawn(one: Kept) -> bytes | None:
    return one.picture if one.result.status in FAILURES else None


def _explorer(shown: Sequence[Kept], folder: Path, again: str) -> Explorer:
    """Make the part of the page in which images are found, sorted and filtered."""
    pictures = Pictures(PICTURES, BYTES, "image/svg+xml")
    column = pictures.column([functools.partial(_drawn, one) for one in shown])
    data = {
        "caption": "Every image: its label, what it is read as, and what is known of it",
        "noun": "images",
        "columns": [*_columns(shown), _files(shown, folder), column],
        "again": again,
        "facets": [
            {"key": "verdict", "title": "Status"},
            {"key": "label", "title": "Label"},
            {"key": "read_as", "title": "Read as"},
        ],
        "title": ["name_words", "label_words"],
        "pictures": pictures.drawn,
        "drawn": "Images that failed",
        "one": "Picture",
        "gallery": bool(pictures.drawn),
    }
    return Explorer(data, _plain(shown))


def _files(shown: Sequence[Kept], folder: Path) -> Column:
    """Return where the counterexamples are, those that are there."""
    names = [counterexample(one.result.index) for one in shown]
    there = [name if (folder / name).is_file() else "" for name in names]
    return text_column("file", "counterexample as a file", there, hidden=True, kind="file")


def _columns(shown: Sequence[Kept]) -> list[Column]:
    results = [one.result for one in shown]
    named = any(one.name != str(one.result.index) for one in shown)
    read_as = [str(r.predicted if r.read_as is None else r.read_as) for r in results]
    numbers = [result.index for result in results]
    certificates = [_certificate(result) for result in results]
    return [
        number_column("image", "number" if named else "", numbers, hidden=not named, level=2),
        text_column("name", "image", [one.name for one in shown], link=True),
        text_column("label", "label", [str(r.label) for r in results], ordered=True),
        text_column("verdict", "status", [str(r.status) for r in results], kind="verdict"),
        text_column("read_as", "read as", read_as, ordered=True),
        text_column("predicted", "clean image read as", [str(r.predicted) for r in results], level=3),
        number_column("seconds", "seconds", [r.seconds for r in results], kind="seconds", level=2),
        number_column("margin", "margin", [r.margin for r in results], level=3),
        text_column("decided", "decided by", [r.decided_by for r in results], level=3),
        text_column("reason", "reason", [r.reason for r in results], level=3),
        text_column("certificate", "certificate", certificates, level=3, hidden=not any(certificates)),
        text_column("name_words", "", [f"image {one.name}" for one in shown], hidden=True),
        text_column("label_words", "", [f"label {r.label}" for r in results], hidden=True),
    ]


def _certificate(result: ImageResult) -> str:
    state = result.certificate
    if state is None:
        return ""
    return Certificate(**state).line.removeprefix("certificate: ")


def _plain(shown: Sequence[Kept]) -> Table:
    rows = [["" if cell is None else _cell(cell) for cell in one.row] for one in shown]
    place = COLUMNS.index("status")
    marked = {(k, place) for k, one in enumerate(shown) if one.result.status in FAILURES}
    return plain_table(COLUMNS, rows, noun="images", file="results.csv", names=2, marked=marked)


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
