"""VNN-LIB 2.0: numbers, strictness, choices, products, shared inputs, and what a linear map rounds."""

from __future__ import annotations

from mutants.mutant import Mutant

READING = ("problem/vnnlib2/test_v2_reading.py", "problem/vnnlib2/test_v2_agrees.py")
NORMAL = ("problem/vnnlib2/test_v2_normal.py", "problem/vnnlib2/test_v2_agrees.py")
PRODUCTS = ("problem/vnnlib2/test_v2_products.py",)
CHOICES = ("problem/vnnlib2/test_v2_choices.py",)
NETWORKS = ("problem/vnnlib2/test_v2_two_networks.py",)

MUTANTS = (
    Mutant(
        "query-numbers-as-doubles",
        "problem/vnnlib/v2/terms.py",
        "                value = decimal(text)\n",
        "                value = Fraction(literal.value)\n",
        "a number is the decimal that is written",
        READING,
    ),
    Mutant(
        "query-strict-is-not",
        "problem/formulas/build.py",
        '    "<": (((True, True),), False),\n',
        '    "<": (((True, False),), False),\n',
        "strict stays strict",
        READING,
    ),
    Mutant(
        "query-side-of-a-negative-factor",
        "problem/formulas/build.py",
        "upper == (factor > 0)",
        "upper",
        "division by a negative factor turns a limit around",
        READING,
    ),
    Mutant(
        "query-equal-limits-exclude",
        "problem/formulas/normal.py",
        "            return known.strict or limit.strict\n",
        "            return True\n",
        "two limits that meet leave a point",
        NORMAL,
    ),
    Mutant(
        "query-implied-though-stricter",
        "problem/formulas/normal.py",
        "            return known.strict or not limit.strict\n",
        "            return True\n",
        "a strict limit does not follow from one that is not",
        NORMAL,
    ),
    Mutant(
        "query-supersets-the-wrong-way",
        "problem/formulas/normal.py",
        "next((other for other in unique if other < own), None)",
        "next((other for other in unique if own < other), None)",
        "the option that says less holds the other's violations, and not the reverse",
        NORMAL,
    ),
    Mutant(
        "query-spread-of-a-product-without-a-part",
        "problem/derived.py",
        "        return a * f + b * e + e * f\n",
        "        return a * f + e * f\n",
        "both factors of a product may be off",
        PRODUCTS,
    ),
    Mutant(
        "query-positive-part-of-a-negative-factor",
        "problem/formulas/arithmetic.py",
        "        if factor < 0:\n            negated",
        "        if False:\n            negated",
        "max(c·v, 0) is c·max(v, 0) for c > 0 alone",
        CHOICES,
    ),
    Mutant(
        "query-least-for-and",
        "problem/formulas/choices.py",
        "arithmetic.larger if isinstance(formula, All) else arithmetic.smaller",
        "arithmetic.smaller",
        "a conjunction is the largest of its parts",
        CHOICES,
    ),
    Mutant(
        "query-equal-inputs-in-one-choice",
        "problem/formulas/build.py",
        "        and not limit.strict\n        and (direction, False) in sides\n",
        "        and not limit.strict\n        and True\n",
        "inputs are one only where an equation holds in every case",
        ("problem/vnnlib2/test_v2_two_networks.py::test_monotonicity_by_one_network_on_two_inputs",),
    ),
    Mutant(
        "query-members-read-the-same",
        "model/combined/merged.py",
        "index = Index(0, torch.tensor(member.reads, dtype=torch.int64), self._size)\n",
        "index = Index(0, torch.arange(len(member.reads)), self._size)\n",
        "each network reads its own inputs",
        NETWORKS,
    ),
    Mutant(
        "query-ops-of-one-shape-are-equal",
        "model/combined/alike.py",
        "a.dtype == b.dtype and torch.equal(a, b)",
        "a.shape == b.shape",
        "two layers are one only where their weights are the same",
        NETWORKS,
    ),
    Mutant(
        "query-ties-of-any-row",
        "problem/last/ties.py",
        "    return any(not row.holds((), ()) for row in constant)",
        "    return any(True for _ in constant)",
        "equal outputs satisfy a row that is not strict",
        NETWORKS,
    ),
    Mutant(
        "image-without-its-rounding",
        "model/combined/mapped.py",
        "        return Linear(self.generators, self.centre, around)\n",
        "        return Linear(self.generators, self.centre)\n",
        "a proof covers the x that is replayed",
        ("problem/test_linear_image.py",),
    ),
    Mutant(
        "alike-within-a-radius",
        "model/combined/alike.py",
        '    if type(one) is not type(other) or getattr(one, "radius", None) is not None:\n',
        "    if type(one) is not type(other):\n",
        "numbers with a radius stand for others near them, which may differ",
        ("model/test_alike.py",),
    ),
)
