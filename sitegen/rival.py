"""The chart beside another tool: `python -m sitegen.rival` draws docs/images/rival-light.svg and rival-dark.svg.

The README shows it on GitHub, so it is stored. Its figures are those of the tables in docs/performance.md.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from sitegen.look import LOOKS, Look

DOCS = Path(__file__).resolve().parents[1] / "docs"
FOLDER = DOCS / "images"
# By the words of the chart: the row in the table of both tools.
SETS = {
    "OVAL base, easy": "OVAL base easy, first 6",
    "OVAL base, hard": "OVAL base hard, first 6",
    "OVAL wide": "OVAL wide, 5 of the first 6",
    "OVAL deep": "OVAL deep, first 6",
    "ACAS Xu": "ACAS Xu, 8",
}
SERIES = ("α,β-CROWN, release of December 2025", "netproof 0.2.0, side by side with it")
WIDTH, LEFT, SCALE = 760, 130, 78  # of the drawing; of the names; of a second
BAR, GROUP = 16, 46


def seconds(page: str) -> dict[str, tuple[float, float]]:
    """Return by name mean seconds of the other tool and of netproof beside it."""
    rows = {}
    for name, beside in SETS.items():
        row = re.search(rf"^\| {re.escape(beside)} \| ([\d.]+) \| ([\d.]+) \|", page, re.MULTILINE)
        if row is None:
            raise ValueError(f"docs/performance.md has no row for {name}")
        rows[name] = float(row[1]), float(row[2])
    return rows


def draw(look: Look, rows: dict[str, tuple[float, float]]) -> str:
    """Return the chart as SVG, its text as text."""
    height = GROUP * len(rows) + 30
    colours = (look.bad, look.good)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        f' font-family="system-ui, sans-serif" font-size="13" fill="{look.ink}">'
    ]
    for at, (name, values) in enumerate(rows.items()):
        top = GROUP * at + 6
        lines.append(f'<text x="{LEFT - 8}" y="{top + 20}" text-anchor="end">{escape(name)}</text>')
        for place, (value, colour) in enumerate(zip(values, colours, strict=True)):
            y, wide = top + BAR * place, round(SCALE * value, 1)
            lines.append(f'<rect x="{LEFT}" y="{y}" width="{wide}" height="{BAR - 2}" fill="{colour}"/>')
            lines.append(f'<text x="{LEFT + wide + 4}" y="{y + 10}" font-size="10.5">{value:.2f} s</text>')
    left, bottom = LEFT + 200, GROUP * len(rows) - 32
    for place, (word, colour) in enumerate(zip(SERIES, colours, strict=True)):
        y = bottom + 18 * place
        lines.append(f'<rect x="{left}" y="{y}" width="14" height="11" fill="{colour}"/>')
        lines.append(f'<text x="{left + 20}" y="{y + 10}">{escape(word)}</text>')
    lines.append(f'<text x="{LEFT}" y="{height - 8}">mean seconds per property, start-up excluded</text>')
    return "\n".join([*lines, "</svg>", ""])


def main() -> None:
    """Draw both versions."""
    rows = seconds((DOCS / "performance.md").read_text(encoding="utf-8"))
    for look in LOOKS:
        (FOLDER / f"rival-{look.name}.svg").write_text(draw(look, rows), encoding="utf-8")


if __name__ == "__main__":
    main()
