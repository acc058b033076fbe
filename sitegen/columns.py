"""The page of CSV files: the columns as the writers have them, their meanings from the source or from here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from netproof.campaign.scores import Duel
from netproof.campaign.store import Result
from netproof.dataset.store import COLUMNS as IMAGE_COLUMNS
from netproof.report.files import COLUMNS, DUEL_COLUMNS, FIGURES, POINTS, RUN_COLUMNS
from sitegen.fields import comments, sentence

# What the source does not say behind a field.
RUNS = {
    "configuration": "The method's name in the report, with whatever tells it from others of the same method",
    "benchmark": "The folder's name",
    "folder": "The folder of the instances",
    "onnx": "The model, as `instances.csv` names it",
    "vnnlib": "The property, as `instances.csv` names it",
    "vnnlib_sha256": "The property's hash",
    "onnx_sha256": "The model's hash, over all of its files where weights lie beside it",
    "truth": "`sat` or `unsat` where the answer is known",
    "method": "The method",
    "timeout": "The time limit in seconds",
    "device": "`cpu` or `cuda:N`",
    "seed": "The seed of the attack",
    "attack": "Whether an attack came first",
    "reason": "Why there is no answer, or what is to be said of it",
    "decided_by": "`attack`, `root`, `search`, `leaf` or `input set`",
    "lower_bound": "The proved bound of the margin",
    "upper_bound": "The least margin at any point that was evaluated",
    "domains": "Sub-domains bounded below the root",
    "split": "Sub-domains that were split; empty in rows of 0.1.0 and of runs that were ended from outside",
    "leaf_lps": "LPs on sub-domains with nothing left to split",
    "cut_in_lp": "Whether the time ended inside a turn of the LP; empty as `split` is",
    "rounds": "Rounds of the search",
    "peak_memory": "Bytes, on the device of the search",
    "peak_host_memory": "Bytes that the process had of the host's memory",
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
IMAGES = {
    "image": "Its place in the data set, from 0",
    "name": "Its file, where it has one",
    "label": "Its label in the data set",
    "predicted": "What onnxruntime reads it as",
    "status": "`proved`, `broken`, `open` or `misread`",
    "seconds": "What it took; shared work is divided among the images",
    "margin": "The proved lower bound of the margin",
    "read_as": "What its counterexample is read as",
    "decided_by": "`attack`, `root`, `search`, `leaf` or `input set`",
    "reason": "Why it is open, or what is to be said of the answer",
}
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
    parts = [
        "# CSV files\n",
        "Commas, a header unless said otherwise, an empty cell where a value is not known. Mappings are JSON.\n",
        "## runs.csv: every run of a campaign\n",
        "`netproof bench --out DIR` and `netproof report DIR` write it to `DIR/report`; `DIR/results.sqlite` has the "
        "same columns in its table `runs`, and two more: `witness`, and `log`, a crashed worker's last words.\n",
        _table(("configuration", *RUN_COLUMNS), {**said, **RUNS}),
        "## summary.csv: a row for each benchmark and method\n",
        _table((*COLUMNS, *FIGURES, *POINTS), SUMMARY),
        "## speedups.csv: each configuration against another\n",
        "Times count only where both solved an instance with the same answer.\n",
        _table(DUEL_COLUMNS, {**{name: sentence(text) for name, text in comments(Duel).items()}, **DUELS}),
        "## results.csv: VNN-COMP's format\n",
        "No header. A `results-CONFIGURATION.csv` for each configuration, and `results.csv` for the first one.\n",
        "\n".join(["| column | |", "|---|---|", *(f"| {place} | {text} |" for place, text in VNNCOMP), ""]),
        "## results.csv of certify: a row for each image\n",
        "`netproof certify --out DIR` writes it to `DIR`.\n",
        _table(IMAGE_COLUMNS, IMAGES),
    ]
    return "\n".join(parts)


def _table(names: Iterable[str], meanings: Mapping[str, str]) -> str:
    return "\n".join(["| column | |", "|---|---|", *(f"| `{name}` | {meanings.get(name, '')} |" for name in names), ""])
