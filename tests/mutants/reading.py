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
        "check-one-nan-is-enough",
        FILE,
        "neither = ours.isnan() & theirs.isnan()",
        "neither = ours.isnan() | theirs.isnan()",
        "undefined is what neither has a number for",
        CHECK,
    ),
    Mutant(
        "check-undefined-everywhere-agrees",
        FILE,
        '    raise _hidden(network, place, "there is no number there whatever its input")\n',
        "",
        "a node that was compared nowhere is not trusted",
        CHECK,
    ),
    Mutant(
        "clip-infinite-on-either-side",
        "model/onnx/unbounded.py",
        "_SIDES.get(position) == found.get(name)",
        "position in _SIDES",
        "a lower bound of +inf is no bound that no number passes",
        ("operators/test_hinges.py",),
    ),
    Mutant(
        "check-overflow-excuses-everything",
        FILE,
        "overflow = ~value.isfinite() & (ours.abs() + size_behind(allowed, dtype) >= torch.finfo(dtype).max)",
        "overflow = ~value.isfinite()",
        "infinite is what is too large for the type, nothing else",
        CHECK,
    ),
    Mutant(
        "check-without-the-inputs",
        FILE,
        "    _inputs(network)\n",
        "",
        "the parts of the graph's input are what onnxruntime is given for each input",
        ("model/test_several.py",),
    ),
    Mutant(
        "check-without-the-outputs",
        FILE,
        "    if len(network.outputs) > 1:\n        _outputs(network)\n",
        "",
        "the vector of several outputs is made of these in their order",
        ("model/test_several.py",),
    ),
    Mutant(
        "cast-that-rounds",
        "model/onnx/elements.py",
        "            return _GROWING.index(self.element) <= _GROWING.index(element)",
        "            return True",
        "a cast to a type that holds less rounds",
        ("model/test_float_types.py",),
    ),
    Mutant(
        "cast-of-any-integer",
        "model/onnx/elements.py",
        "        return self.span is not None and least <= self.span[0] and self.span[1] <= most",
        "        return True",
        "integers wrap beyond their type, and a cast of a float cuts off",
        ("operators/test_numbers.py",),
    ),
    Mutant(
        "argmax-without-ties",
        "problem/last/places.py",
        "strict=(j > place) == found.last)",
        "strict=False)",
        "of several largest scores one alone wins",
        ("problem/test_places.py",),
    ),
    Mutant(
        "resize-without-float32-neighbours",
        "model/onnx/operators/data/resize.py",
        "    if exact != theirs:\n",
        "    if False:\n",
        "where float32 takes another nearest entry the node is refused",
        ("operators/test_data.py",),
    ),
)
