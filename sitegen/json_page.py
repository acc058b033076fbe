"""The page of the documents that `--json` writes: their keys, what each is, and who writes it."""

from __future__ import annotations

HEAD = """# JSON

`--json FILE` writes everything that is known about a run; `--json -` writes it to stdout, which then holds nothing
else. In Python, `to_dict()` of a verdict or a certification has the same keys, without those about the command. Numbers
that are not known are `null`; no number is infinite or NaN. Keys may be added; those on this page keep their meaning.
"""

VERIFY = {
    "verdict": "`unsat`, `sat`, `timeout` or `unknown`",
    "reason": "Why there is no answer, or what is to be said of it; else empty",
    "decided_by": "`attack`, `root`, `search`, `leaf` or `input set`; empty while undecided",
    "arithmetic": "`real`: a proof is about real numbers",
    "seconds": "By phase: `load`, `attack`, `root`, `search`, `leaf`, `confirm`, `other`; these add up to `total`",
    "lower_bound": "The proved lower bound of the margin; the property holds where it is positive",
    "upper_bound": "The least margin at any point that was evaluated",
    "domains": "Sub-domains bounded below the root",
    "split": "Sub-domains that were split; `null` for a run that was ended from outside",
    "rounds": "Rounds of the search",
    "leaf_lps": "LPs on sub-domains with nothing left to split",
    "cut_in_lp": "Whether the time ended inside a turn of the LP; `null` as `split` is",
    "peak_memory": "Bytes, on the device of the search",
    "peak_host_memory": "Bytes that the process had of the host's memory",
    "contradiction": "Only where the evidence contradicts itself, which is a bug: what is wrong, where the case is",
    "method": "The method that was asked for",
    "device": "The device that was used",
    "seed": "The seed of the attack",
    "witness": "`null`, or the counterexample: `input` and `output` as nested lists, `note` if something is to be "
    "said, `tensors` by name for a VNN-LIB 2.0 query",
    "model": "Its `path` and `sha256`; `external`: the same of files that its weights lie in",
    "other_models": "Of further networks of a query, where there are any",
    "property": "`path` and `sha256` of the specification, or of the image",
    "versions": "Of netproof and of the libraries and devices that the answer rests on",
}
ROBUSTNESS = {
    "label": "The label that must win",
    "predicted": "What onnxruntime reads the image as",
    "norm": "`inf`, `2` or `1`",
    "eps": "The radius, as an exact fraction",
    "targets": "For each rival: `target`, `verdict`, `reason`, `lower_bound`, `upper_bound`, `domains`, `seconds`",
    "probes": "With `--largest`: the same for each radius that was tried, by `eps`",
    "certified": "With `--largest`: the largest radius that was certified",
    "broken": "With `--largest`: the smallest radius that was broken",
    "counterexample": "`null`, or what the counterexample is read as, and how far it is from the image",
}
BOUNDS = {
    "lower": "The proved lower bound of each output",
    "upper": "The proved upper bound of each output",
    "exact": "Whether these are the true minimum and maximum",
    "reason": "Why they are not, where `--method exact` was asked for",
    "method": "`ibp`, `crown`, `alpha`, `lp` or `exact`",
    "seconds": "Wall-clock seconds",
    "model": "The model's path",
    "property": "The path of the specification",
}
INSPECT = {
    "path": "The file",
    "sha256": "Its hash",
    "opset": "Its ONNX opset",
    "operators": "How often each ONNX operator occurs",
    "input_shape": "The shape of the input, or of all inputs as one",
    "output_shape": "The shape of the output, or of all outputs as one",
    "inputs": "Each input: `name`, `shape`, `dtype`",
    "outputs": "Each output, likewise",
    "weight_dtypes": "The types of the weights",
    "layers": "netproof's own graph: `index`, `name`, `op`, `inputs`, `shape`, `parameters`",
    "neurons": "The number of nonlinear neurons of each node that has any",
    "parameters": "The number of weights",
    "notes": "What else is to be said of the file",
    "supported": "Whether all of it can be verified",
    "unsupported": "Every node that cannot be, with the reason and a hint",
}
CERTIFY = {
    "eps": "The radius",
    "norm": "`inf`, `2` or `1`",
    "images": "How many images there are",
    "clean": "Share of images that are read right",
    "attacked": "Share that is read right and was not broken",
    "certified": "Share that is proved",
    "counts": "How many images are `proved`, `broken`, `open` and `misread`",
    "seconds": "Wall-clock seconds",
    "results": "For each image, what [results.csv](csv.md#resultscsv-of-certify-a-row-for-each-image) has",
    "complete": "Whether every image was looked at; `false` after Ctrl-C",
    "method": "The method that was asked for",
    "model": "The model's path",
}
DOCUMENTS = (
    ("verify", "`netproof verify --json`", VERIFY),
    ("robust", "`netproof robust --json` has the keys of `verify`, of the worst rival, and `robustness`:", ROBUSTNESS),
    ("bounds", "`netproof bounds --json`", BOUNDS),
    ("inspect", "`netproof inspect --json`", INSPECT),
    ("certify", "`netproof certify --json`", CERTIFY),
)


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for name, text, keys in DOCUMENTS:
        rows = [f"| `{key}` | {meaning.replace('|', chr(92) + '|')} |" for key, meaning in keys.items()]
        parts += [f"## {name}\n", f"{text}\n", "| key | |", "|---|---|", *rows, ""]
    return "\n".join(parts)
