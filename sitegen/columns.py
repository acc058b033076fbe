"""The page of CSV files: the columns as the writers have them, with what the schemas and the source say of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from netproof.campaign.scores import Duel
from netproof.campaign.store import Result
from netproof.dataset.store import COLUMNS as IMAGE_COLUMNS
from netproof.report.columns import IN_CSV
from netproof.report.files import DUEL_COLUMNS, RUN_COLUMNS
from netproof.run.schema import schemas
from sitegen.fields import comments, sentence

# What the source does not say behind a field.
AS_IN_JSON = (
    *("method", "device", "seed", "reason", "decided_by", "lower_bound", "upper_bound", "domains", "split"),
    *("leaf_lps", "cut_in_lp", "rounds", "peak_memory", "peak_host_memory"),
)
RUNS = {
    "configuration": "The method's name in the report, with whatever tells it from others of the same method",
    "benchmark": "The folder's name",
    "folder": "The folder of the instances",
    "onnx": "The model, as `instances.csv` names it",
    "vnnlib": "The property, as `instances.csv` names it",
    "vnnlib_sha256": "The property's hash",
    "onnx_sha256": "The model's hash, over all of its files where weights lie beside it",
    "truth": "`sat` or `unsat` where the answer is known",
    "timeout": "The time limit in seconds",
    "attack": "Whether an attack came first",
    "versions": "Of netproof, Python and libraries, as JSON",
    "finished": "When it ended, ISO 8601, UTC",
}
SUMMARY = {
    "benchmark": "The folder's name",
    "method": "The configuration",
    "instances": "How many runs count",
    "solved": "How many are `sat` or `unsat`",
    "unsat": "Proved",
    "sat": "Broken",
    "timeout": "Out of time",
    "unknown": "Undecided for another reason",
    "error": "Refused or crashed",
    "checked": "Solved ones whose answer is known",
    "wrong": "Answers that contradict what is known",
    "mean_s": "Mean seconds",
    "median_s": "Median seconds",
    "longest_s": "Most seconds",
    "mean_domains": "Mean number of sub-domains",
    "points": "VNN-COMP's points",
    "score_percent": "Points in per cent of the best configuration's, as VNN-COMP ranks; of all benchmarks, their sum",
    "par2_s": "PAR-2: mean seconds, where an instance that was not solved counts twice its limit",
}
IMAGES = {"name": "Its file, where it has one"}
DUELS = {
    "first": "A configuration",
    "second": "Another one",
    "both": "Instances that both solved",
    "only_first": "Instances that only the first solved",
    "only_second": "Instances that only the second solved",
    "median": "The median of these quotients",
}
VNNCOMP = (
    ("1", "Category: the folder's name"),
    ("2", "The model, as `instances.csv` names it"),
    ("3", "The property, as `instances.csv` names it"),
    ("4", "Seconds of preparation: always 0.0"),
    ("5", "Result: `sat`, `unsat`, `timeout`, `unknown` or `error`"),
    ("6", "Seconds"),
)


def page() -> str:
    """Return the page."""
    said = {name: sentence(text) for name, text in comments(Result).items() if text}
    documents = schemas()
    answers = _texts(documents["verify"])
    images = _texts(documents["certify"]["properties"]["results"]["items"])
    parts = [
        "# CSV files\n",
        "Commas, a header unless said otherwise, an empty cell where a value is not known. Mappings are JSON.\n",
        "## runs.csv: every run of a campaign\n",
        "`netproof bench --out DIR` and `netproof report DIR` write it to `DIR/report`; `DIR/results.sqlite` has the "
        "same columns in its table `runs`, and three more: `witness`, `original`, the middle of its input set, and "
        "`log`, a crashed worker's last words.\n",
        _table(("configuration", *RUN_COLUMNS), {**said, **{name: answers[name] for name in AS_IN_JSON}, **RUNS}),
        "## summary.csv: a row for each benchmark and method\n",
        _table([column.key for column in IN_CSV], SUMMARY),
        "## speedups.csv: each configuration against another\n",
        "Times count only where both solved an instance with the same answer.\n",
        _table(DUEL_COLUMNS, {**{name: sentence(text) for name, text in comments(Duel).items()}, **DUELS}),
        "## results.csv: VNN-COMP's format\n",
        "No header. A `results-CONFIGURATION.csv` for each configuration, and `results.csv` for the first one.\n",
        "\n".join(["| column | |", "|---|---|", *(f"| {place} | {text} |" for place, text in VNNCOMP), ""]),
        "## results.csv of certify: a row for each image\n",
        "`netproof certify --out DIR` writes it to `DIR`.\n",
        _table(IMAGE_COLUMNS, {**images, "image": images["index"], **IMAGES}),
    ]
    return "\n".join(parts)


def _texts(node: Mapping[str, Any]) -> dict[str, str]:
    """Return by key what a schema says of it, with the values that it may have."""
    found = {}
    for key, inner in node["properties"].items():
        values = ", ".join(f"`{value}`" for value in inner.get("enum", ()) if value is not None)
        found[key] = sentence(inner["description"]) + (f": {values}" if values else "")
    return found


def _table(names: Iterable[str], meanings: Mapping[str, str]) -> str:
    return "\n".join(["| column | |", "|---|---|", *(f"| `{name}` | {meanings.get(name, '')} |" for name in names), ""])
