"""Tables for a paper: LaTeX with booktabs' rules, to be read by \\input."""

from __future__ import annotations

from netproof.report.page import Table

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "\u2011": "-",
    "\u00a0": "~",
    "×": r"$\times$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def latex(table: Table) -> str:
    """Write a table as a tabular; totals are set off by a rule. The preamble needs booktabs."""
    columns = "l" * table.names + "r" * (len(table.header) - table.names)
    lines = [f"\\begin{{tabular}}{{{columns}}}", "\\toprule", _row(table.header), "\\midrule"]
    for place, row in enumerate(table.rows):
        if place in table.totals and place - 1 not in table.totals:
            lines.append("\\midrule")
        lines.append(_row(row))
    return "\n".join(["% needs \\usepackage{booktabs}", *lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


def _row(cells: object) -> str:
    assert isinstance(cells, list | tuple)
    return " & ".join("".join(SPECIAL.get(c, c) for c in str(cell)) for cell in cells) + r" \\"
