"""The page of a certified data set: its accuracies, every image, and those that failed as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from netproof.dataset.result import Certification, ImageStatus, percent
from netproof.dataset.store import COLUMNS, Kept
from netproof.report.files import write_csv, write_text
from netproof.report.latex import latex
from netproof.report.page import Explorer, Section, Table, data_uri, page
from netproof.report.rows import short

PICTURES, BYTES = 500, 8_000_000  # failures that are shown as pictures, and the room that they may take in the page
PLAIN = 1000  # images that those without JavaScript see
FAILURES = (ImageStatus.BROKEN, ImageStatus.MISREAD)
ORDER = ("proved", "open", "broken", "misread")
FILES = (
    ("results.csv", "every image"),
    ("accuracy.csv", "the accuracies"),
    ("accuracy.tex", "the same for LaTeX"),
    ("counterexamples/", "the counterexample of each broken image, as NumPy's .npy"),
)


def write_page(
    found: Certification,
    kept: Mapping[int, Kept],
    path: Path,
    *,
    title: str,
    facts: Sequence[tuple[str, str]] = (),
) -> Path:
    """Write the page, with everything that it shows inside, and the tables beside it; return its path.

    facts: what stands at its top, such as the machine and the command.
    """
    low, high = found.bracket
    text = (
        f"{len(found)} images within eps = {found.eps} (norm {found.norm}). The robust accuracy is between"
        f" {percent(low)} and {percent(high)}: at least what is certified, at most what withstood the attack."
    )
    tables = [_accuracies(found), _statuses(found)]
    sections = [
        Section("Accuracy", tables=tables),
        Section("Images", text=_failures(found, kept), explorer=_explorer(found, kept)),
        Section("Files", "Beside this page lie:", links=FILES),
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


def _failures(found: Certification, kept: Mapping[int, Kept]) -> str:
    failed = [image for image in found if image.status in FAILURES]
    if not failed:
        return "No image is misread, and none is broken."
    drawn = sum(bool(kept[image.index].picture) for image in failed)
    more = f" The first {PICTURES} of them are drawn." if drawn > PICTURES else ""
    return f"{len(failed)} images are misread, or broken by a counterexample that onnxruntime replayed.{more}"


def _explorer(found: Certification, kept: Mapping[int, Kept]) -> Explorer:
    """Make the part of the page in which images are found, sorted and filtered."""
    shown = [one for _, one in sorted(kept.items())]
    pictures: list[dict[str, Any]] = []
    data = {
        "caption": "Every image: its label, what it is read as, and what is known of it",
        "noun": "images",
        "columns": [*_columns(shown), _pictures(shown, pictures)],
        "facets": [
            {"key": "verdict", "title": "Status"},
            {"key": "label", "title": "Label"},
            {"key": "read_as", "title": "Read as"},
        ],
        "title": ["name_words", "label_words"],
        "pictures": pictures,
        "drawn": "Images that failed",
        "gallery": bool(pictures),
    }
    return Explorer(data, _plain(shown))


def _columns(shown: Sequence[Kept]) -> list[dict[str, Any]]:
    results = [one.result for one in shown]
    named = any(one.name != str(one.result.index) for one in shown)
    image = {"key": "image", "title": "number" if named else "", "kind": "number", "hidden": not named, "level": 2}
    seconds = {"key": "seconds", "title": "seconds", "kind": "seconds", "data": [short(r.seconds) for r in results]}
    return [
        {**image, "data": [result.index for result in results]},
        _coded("name", "image", [one.name for one in shown], link=True),
        _coded("label", "label", [str(r.label) for r in results]),
        _coded("verdict", "status", [str(r.status) for r in results], kind="verdict"),
        _coded("read_as", "read as", [str(r.predicted if r.read_as is None else r.read_as) for r in results]),
        _coded("predicted", "the image itself", [str(r.predicted) for r in results], level=3),
        {**seconds, "level": 2},
        {"key": "margin", "title": "margin", "kind": "number", "level": 3, "data": [short(r.margin) for r in results]},
        _coded("decided", "decided by", [r.decided_by for r in results], level=3),
        _coded("reason", "reason", [r.reason for r in results], level=3),
        _coded("name_words", "", [f"image {one.name}" for one in shown], hidden=True),
        _coded("label_words", "", [f"label {r.label}" for r in results], hidden=True),
    ]


def _coded(key: str, title: str, texts: Sequence[str], **more: Any) -> dict[str, Any]:
    """Make a column of texts: each once, and by row its place; what can be chosen from is in order."""
    values = sorted(set(texts), key=lambda text: (len(text), text)) if key in ("label", "read_as") else list(texts)
    places = {text: place for place, text in enumerate(dict.fromkeys(values))}
    data = [places[text] for text in texts]
    common = {"kind": "text", "search": bool(title)}
    return {"key": key, "title": title, **common, **more, "values": list(places), "data": data}


def _pictures(shown: Sequence[Kept], pictures: list[dict[str, Any]]) -> dict[str, Any]:
    data: list[int | None] = []
    size = 0
    for one in shown:
        place = None
        if one.picture and one.result.status in FAILURES and len(pictures) < PICTURES and size < BYTES:
            place, size = len(pictures), size + len(one.picture)
            pictures.append({"source": data_uri(one.picture, "image/svg+xml")})
        data.append(place)
    return {"key": "picture", "title": "", "kind": "picture", "hidden": True, "data": data}


def _plain(shown: Sequence[Kept]) -> Table:
    rows = [["" if cell is None else _cell(cell) for cell in one.row] for one in shown[:PLAIN]]
    place = COLUMNS.index("status")
    marked = frozenset((k, place) for k, row in enumerate(rows) if row[place] in ("broken", "misread"))
    more = f"The first {PLAIN} of {len(shown)} images; results.csv has all" if len(shown) > PLAIN else "Every image"
    return Table(COLUMNS, rows, names=2, caption=more, marked=marked)


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
