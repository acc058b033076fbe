"""What `--json` writes, as JSON Schema: one for each command, all of one version. No numpy here.

A document says its version under `schema`. It grows by one when a key goes or changes its meaning; new keys leave it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netproof.core.verdict import PHASES, Status

VERSION = 1
DRAFT = "https://json-schema.org/draft/2020-12/schema"

Node = dict[str, Any]


def _of(kind: str | list[str], about: str, **more: Any) -> Node:
    return {"type": kind, "description": about, **more}


def _object(about: str, keys: Mapping[str, Node], optional: Mapping[str, Node] | None = None) -> Node:
    """Describe an object with these keys; `optional` ones may be left out."""
    named = {"properties": {**keys, **(optional or {})}, "required": list(keys), "additionalProperties": False}
    return _of("object", about, **named)


def _list(about: str, item: Node) -> Node:
    return _of("array", about, items=item)


def _or_none(node: Node) -> Node:
    kinds = node["type"] if isinstance(node["type"], list) else [node["type"]]
    return {**node, "type": [*kinds, "null"], **({"enum": [*node["enum"], None]} if "enum" in node else {})}


_NUMBER, _COUNT, _TEXT = "number", "integer", "string"
_NESTED: Node = {"type": ["array", "number", "null"], "description": "numbers, nested as the tensor's shape is"}
_VERSION = _of(_COUNT, "the version of this description", const=VERSION)
_SHAPE = _list("the sizes of the axes", _of(_COUNT, "a size"))
_FILE = {
    "path": _of(_TEXT, "as it was given"),
    "sha256": _or_none(_of(_TEXT, "of the file as it is on disk; null where it could not be read in time")),
}
_VERDICT = _of(
    _TEXT,
    "unsat: the property holds; sat: it is broken; unknown and timeout: neither is shown",
    enum=[str(status) for status in Status],
)
_REASON = _of(_TEXT, "why nothing is decided, or what else is to be known; often empty")
_LOWER = _or_none(_of(_NUMBER, "the proved margin: the property holds where it is above 0"))
_UPPER = _or_none(_of(_NUMBER, "the least value at a point that was evaluated"))
_DOMAINS = _of(_COUNT, "sub-domains bounded below the root")

_WITNESS = _or_none(
    _object(
        "the counterexample, replayed by onnxruntime",
        {"input": _NESTED, "output": _NESTED},
        {
            "note": _of(_TEXT, "what is special about the point"),
            "tensors": _of("object", "by name, the tensors that a VNN-LIB 2.0 query declares"),
            "real_rows": _of("object", "within rounding: what exact arithmetic says of the rows"),
        },
    )
)
_SEEN = _or_none(
    _object(
        "the counterexample as people see it",
        {
            "read_as": _or_none(_of(_COUNT, "its largest output")),
            "was": _or_none(_of(_COUNT, "that of the original")),
            "changed": _of(_NUMBER, "the largest change of one number; of a picture, of one pixel in [0, 1]"),
        },
    )
)
_HASH = _of(_TEXT, "a SHA-256, in hexadecimal digits")
_ABOUT = _or_none(
    _object(
        "what the answer is about, see docs/trusted.md; null where the run ended before the network was read",
        {
            "graph": _or_none(_of(_TEXT, "the hash of the graph that was bounded; null of a plug-in's without one")),
            "networks": _list(
                "that it was made of",
                _object(
                    "a network",
                    {
                        "name": _of(_TEXT, "as a query names it; model where it is the only one"),
                        "file": _or_none(_of(_TEXT, "the hash of the file; null of a torch module")),
                        "external": _list("the hashes of files beside it that hold weights", _HASH),
                        "module": _or_none(
                            _object(
                                "a torch module when it was read",
                                {
                                    "name": _of(_TEXT, "of its class, with the module that defines it"),
                                    "weights": _HASH,
                                    "shape": _SHAPE,
                                },
                            )
                        ),
                    },
                ),
            ),
        },
    )
)
_CERTIFICATE = _or_none(
    _object(
        "what became of a certificate; null where none was asked for",
        {
            "path": _of(_TEXT, "as it was given"),
            "model": _of(_TEXT, "the file of the network that it is about; empty where it is not written"),
            "spec": _of(_TEXT, "the file of the question; the same"),
            "written": _of("boolean", "whether the file is there"),
            "leaves": _of(_COUNT, "parts of the set that are shown one by one"),
            "bytes": _of(_COUNT, "of the file"),
            "seconds": _of(_NUMBER, "of writing it, after the verdict"),
            "checked": _or_none(_of("boolean", "whether npcheck accepts it; null where it was not asked")),
            "reason": _of(_TEXT, "why it is not there, or not checked; else empty"),
            "limit": _of(_NUMBER, "seconds that writing it might take"),
        },
    )
)
_ANSWER: Mapping[str, Node] = {
    "schema": _VERSION,
    "verdict": _VERDICT,
    "reason": _REASON,
    "decided_by": _of(_TEXT, "attack, root, search, leaf or input set; empty where nothing is decided"),
    "arithmetic": _of(_TEXT, "in which the answer holds; float32: a violation by onnxruntime alone"),
    "seconds": _object("by phase", {phase: _of(_NUMBER, "seconds") for phase in PHASES}),
    "lower_bound": _LOWER,
    "upper_bound": _UPPER,
    "domains": _DOMAINS,
    "peak_memory": _of(_COUNT, "bytes, on the device of the search"),
    "peak_host_memory": _of(_COUNT, "bytes of the host's memory"),
    "leaf_lps": _of(_COUNT, "LPs that decided a sub-domain with nothing left to split"),
    "rounds": _of(_COUNT, "rounds of the search"),
    "split": _or_none(_of(_COUNT, "sub-domains that were split; null of a run that was ended from outside")),
    "cut_in_lp": _or_none(_of("boolean", "whether the time ended within a turn of the LP")),
    "method": _of(_TEXT, "as `netproof methods` names it"),
    "device": _of(_TEXT, "cpu, cuda or cuda:N"),
    "seed": _of(_COUNT, "of all that is random"),
    "witness": _WITNESS,
    "about": _ABOUT,
    "certificate": _CERTIFICATE,
    "model": _object(
        "the network",
        {**_FILE, "external": _or_none(_list("files that weights lie in", _object("a file", _FILE)))},
    ),
    "property": _object("the specification, or the image", _FILE),
    "versions": _of(
        "object", "of netproof and what it rests on, by name", additionalProperties={"type": ["string", "null"]}
    ),
}
_MORE: Mapping[str, Node] = {
    "contradiction": _of("object", "what in the evidence cannot be true, and where the case is saved: a bug"),
    "other_models": _list("further networks of a query", _object("a network", _FILE)),
}


def _row(key: str, node: Node) -> Node:
    return _object(
        "an answer",
        {
            key: node,
            "verdict": _VERDICT,
            "reason": _REASON,
            "lower_bound": _LOWER,
            "upper_bound": _UPPER,
            "domains": _DOMAINS,
            "seconds": _of(_NUMBER, "of this question"),
        },
    )


_ROBUSTNESS = _object(
    "what was asked about the image, and the answers one by one",
    {
        "label": _or_none(_of(_COUNT, "the output that must stay the largest")),
        "predicted": _or_none(_of(_COUNT, "the largest output for the image itself")),
        "norm": _of(_TEXT, "of the radius", enum=["inf", "2", "1"]),
        "eps": _of(_TEXT, "the radius, exactly, as a fraction"),
        "targets": _list(
            "by target, at eps, up to the first that is broken or with --every-target all; empty with --largest",
            _row("target", _of(_COUNT, "the other output")),
        ),
        "probes": _list("by radius, with --largest", _row("eps", _of(_TEXT, "the radius, exactly"))),
        "certified": _or_none(_of(_NUMBER, "with --largest, the largest radius that is proved")),
        "broken": _or_none(_of(_NUMBER, "with --largest, the smallest radius with a counterexample")),
        "counterexample": _SEEN,
    },
)
_STATUS = _of(_TEXT, "of an image", enum=["misread", "broken", "proved", "open"])
_IMAGE = _object(
    "an image",
    {
        "index": _of(_COUNT, "its place in the data set, from 0"),
        "label": _of(_COUNT, "the output that it should have"),
        "predicted": _of(_COUNT, "the largest output for the image itself"),
        "status": _STATUS,
        "seconds": _of(_NUMBER, "its share of the time"),
        "margin": _or_none(_of(_NUMBER, "proved: by how much the label leads at least")),
        "read_as": _or_none(_of(_COUNT, "the largest output for the counterexample")),
        "decided_by": _of(_TEXT, "image, attack, root, search or leaf"),
        "reason": _of(_TEXT, "why it is open"),
        "certificate": _CERTIFICATE,
    },
)
_CERTIFIED: Mapping[str, Node] = {
    "schema": _VERSION,
    "eps": _of(_TEXT, "the radius, exactly"),
    "norm": _of(_TEXT, "of the radius"),
    "images": _of(_COUNT, "that have an answer"),
    "clean": _of(_NUMBER, "the share that is read right"),
    "attacked": _of(_NUMBER, "the share that is read right and was not broken"),
    "certified": _of(_NUMBER, "the share that is proved"),
    "counts": _object("by status", {status: _of(_COUNT, "images") for status in _STATUS["enum"]}),
    "seconds": _of(_NUMBER, "of all of it"),
    "about": _ABOUT,
    "results": _list("by image", _IMAGE),
    "complete": _of("boolean", "whether every image has an answer"),
    "method": _of(_TEXT, "as `netproof methods` names it"),
    "model": _of(_TEXT, "the network's file"),
    "certificates": _or_none(
        _object(
            "how many proofs have certificates; null where none were asked for",
            {
                "folder": _of(_TEXT, "where they are"),
                "proofs": _of(_COUNT, "images that are proved"),
                "written": _of(_COUNT, "of these, those that have one"),
                "accepted": _of(_COUNT, "of these, those that npcheck accepts"),
            },
        )
    ),
}
_BOUNDED: Mapping[str, Node] = {
    "schema": _VERSION,
    "lower": _or_none(_list("by output; null where there are none", _or_none(_of(_NUMBER, "a proved lower bound")))),
    "upper": _or_none(_list("by output; null where there are none", _or_none(_of(_NUMBER, "a proved upper bound")))),
    "exact": _of("boolean", "whether they are the true range"),
    "reason": _REASON,
    "about": _ABOUT,
    "method": _of(_TEXT, "ibp, crown, alpha, lp or exact"),
    "seconds": _of(_NUMBER, "of all of it"),
    "model": _of(_TEXT, "the network's file"),
    "property": _of(_TEXT, "the specification's file, or the image's"),
}
_TENSOR = _object(
    "a tensor",
    {"name": _or_none(_of(_TEXT, "as in the file")), "shape": _SHAPE, "dtype": _of(_TEXT, "its type")},
)
_INSPECTED: Mapping[str, Node] = {
    "schema": _VERSION,
    "path": _of(_TEXT, "the file"),
    "sha256": _of(_TEXT, "of the file"),
    "opset": _of(_COUNT, "of ONNX"),
    "operators": _of("object", "by name, how many", additionalProperties={"type": "integer"}),
    "input_shape": _SHAPE,
    "output_shape": _or_none(_SHAPE),
    "inputs": _list("tensors that the network takes", _TENSOR),
    "outputs": _list("tensors that it gives; empty where it is not supported", _TENSOR),
    "weight_dtypes": _list("types of its weights", _of(_TEXT, "a type")),
    "layers": _list(
        "nodes of the graph that is verified; empty where it is not supported",
        _object(
            "a node",
            {
                "index": _of(_COUNT, "its number"),
                "name": _of(_TEXT, "in the file"),
                "op": _of(_TEXT, "what it computes"),
                "inputs": _list("nodes that it reads", _of(_COUNT, "a number")),
                "shape": _SHAPE,
                "parameters": _of(_COUNT, "its weights"),
            },
        ),
    ),
    "neurons": _of("object", "by nonlinear node, how many", additionalProperties={"type": "integer"}),
    "parameters": _of(_COUNT, "weights in all"),
    "notes": _list("what is to be known", _of(_TEXT, "a note")),
    "supported": _of("boolean", "whether it can be verified"),
    "unsupported": _list(
        "what stands in the way",
        _object(
            "a node", {"node": _of(_TEXT, "its name"), "op": _of(_TEXT, "its operator"), "line": _of(_TEXT, "why")}
        ),
    ),
}


def schemas() -> dict[str, Node]:
    """Return the schema of what each command writes, by command."""
    found = {
        "verify": _object("`netproof verify --json`", _ANSWER, _MORE),
        "robust": _object("`netproof robust --json`", {**_ANSWER, "robustness": _ROBUSTNESS}, _MORE),
        "certify": _object("`netproof certify --json`", _CERTIFIED),
        "bounds": _object("`netproof bounds --json`", _BOUNDED),
        "inspect": _object("`netproof inspect --json`", _INSPECTED),
    }
    return {name: {"$schema": DRAFT, "title": f"netproof {name}", **node} for name, node in found.items()}
