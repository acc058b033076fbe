"""A case on which netproof contradicted itself, kept so that it can be reported: model, question and evidence."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from netproof._version import __version__
from netproof.core.reasons import CONTRADICTION
from netproof.core.verdict import Verdict
from netproof.model.combined import AnyNetwork
from netproof.problem.property import Disjunct, Property

PREFIX = "netproof-contradiction-"


def save_case(
    verdict: Verdict, network: AnyNetwork, property: Property, method: str, options: Mapping[str, Any], seed: int
) -> Verdict:
    """Write a folder with the case, here or where temporary files go; return the verdict that says where it is."""
    found = dict(verdict.details[CONTRADICTION])
    document = {
        "netproof": __version__,
        "method": method,
        "options": dict(options),
        "seed": seed,
        "model": network.path,
        "about": None if verdict.about is None else verdict.about.to_dict(),
        "specification": property.source,
        "evidence": found,
        "derived": [str(one) for one in property.derived],
        "violations": [_plain(disjunct) for disjunct in property.disjuncts],
    }
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=Path.cwd() if os.access(".", os.W_OK) else None))
        for name, model in network.models.items():
            (folder / f"{name}.onnx").write_bytes(model)
        (folder / "case.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        saved = str(folder)
    except OSError:  # a full disk must not hide the contradiction
        saved = ""
    return replace(verdict, details={CONTRADICTION: {**found, "saved": saved}})


def _plain(disjunct: Disjunct) -> dict[str, Any]:
    """Write a disjunct as exact text: x between `lower` and `upper` (and in the ball), every row at most its limit."""
    box, ball = disjunct.box, disjunct.ball
    return {
        "lower": [str(v) for v in box.lower],
        "upper": [str(v) for v in box.upper],
        "open_lower": sorted(box.open_lower),
        "open_upper": sorted(box.open_upper),
        "ball": None
        if ball is None
        else {"centre": [str(v) for v in ball.centre], "radius": str(ball.radius), "p": ball.p},
        "rows": [
            {
                # of outputs, and after these of derived values
                "coefficients": {str(i): str(c) for i, c in row.coefs.items()},
                "inputs": {str(j): str(c) for j, c in row.inputs.items()},
                "limit": str(row.rhs),
                "strict": row.strict,
            }
            for row in disjunct.rows
        ],
    }
