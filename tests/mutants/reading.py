"""The comparison of a reading with onnxruntime: each of its four parts, and what it may excuse."""

from __future__ import annotations

from mutants.mutant import Mutant

CHECK = ("model/test_cross_check.py",)
FILE = "model/origin/cross_check.py"
PARTS = 'in (("links", _links), ("constants", _constants), ("graph", _graph)):'

MUTANTS = (
    Mutant(
        "check-without-links",
        FILE,
        PARTS,
        'in (("constants", _constants), ("graph", _graph)):',
        "each step takes its inputs where earlier ones put them",
        CHECK,
    ),
    Mutant(
        "check-without-constants",
        FILE,
        PARTS,
        'in (("links", _links), ("graph", _graph)):',
        "constants are onnxruntime's",
        CHECK,
    ),
    Mutant(
        "check-without-the-simplified-graph",
        FILE,
        PARTS,
        'in (("links", _links), ("constants", _constants)):',
        "what is bounded is the simplified graph",
        CHECK,
    ),
    Mutant(
        "check-without-what-overflow-hides",
        FILE,
        "            _alone(network, step)\n",
        "            pass\n",
        "a step that overflow hides is compared alone",
        CHECK,
    ),
    Mutant(
        "check-excuses-everything",
        FILE,
        "    bad = ~((ours - theirs).abs() <= allowed)\n",
        "    bad = (ours - theirs).abs() > allowed * 1e9\n",
        "a step is allowed its rounding, no more",
        CHECK,
    ),
    Mutant(
        "check-nan-agrees",
        FILE,
        "    bad = ~((ours - theirs).abs() <= allowed)\n",
        "    bad = (ours - theirs).abs() > allowed\n",
        "what is not a number agrees with nothing",
        CHECK,
    ),
    Mutant(
        "check-overflow-excuses-everything",
        FILE,
        "overflow = ~value.isfinite() & (ours.abs() + size_behind(allowed, dtype) >= torch.finfo(dtype).max)",
        "overflow = ~value.isfinite()",
        "infinite is what is too large for the type, nothing else",
        CHECK,
    ),
)
