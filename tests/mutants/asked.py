"""Questions in Python: negation, maxima as cases, argmax, products of floats, shared inputs, and their text."""

from __future__ import annotations

from mutants.mutant import Mutant

AGREES = ("ask/test_ask_agrees.py",)
MARGIN = ("ask/test_ask_margin.py",)
VERIFIED = ("ask/test_ask_verify.py",)

MUTANTS = (
    Mutant(
        "asked-not-negated",
        "problem/ask/compile.py",
        "self._formula(~condition, arithmetic)",
        "self._formula(condition, arithmetic)",
        "a condition is what holds, a property what must not",
        AGREES,
    ),
    Mutant(
        "asked-negation-keeps-strictness",
        "problem/ask/conditions.py",
        '"<": ">="',
        '"<": ">"',
        "not (a < b) is a >= b",
        AGREES,
    ),
    Mutant(
        "asked-maximum-below-by-one-part",
        "problem/ask/compile.py",
        'every = ((c > 0) == key.largest) == (relation in ("<", "<="))',
        'every = (c > 0) == (relation in ("<", "<="))',
        "the largest is below a number where all are, the least where one is",
        AGREES,
    ),
    Mutant(
        "asked-minimum-as-a-maximum",
        "problem/ask/compile.py",
        "arithmetic.larger if key.largest else arithmetic.smaller",
        "arithmetic.larger",
        "the least is not the largest",
        AGREES,
    ),
    Mutant(
        "asked-argmax-with-ties",
        "problem/ask/vectors.py",
        "mine > one if self._largest else mine < one for one in rest",
        "mine >= one if self._largest else mine < one for one in rest",
        "a tie is a violation",
        ("ask/test_ask_verify.py::test_argmax_is_the_question_about_a_label",),
    ),
    Mutant(
        "asked-second-run-is-the-first",
        "problem/ask/space.py",
        "        index = self.starts[kind][run] + entry\n",
        "        index = entry\n",
        "each run has inputs and outputs of its own",
        AGREES,
    ),
    Mutant(
        "asked-shared-inputs-in-the-larger-box",
        "problem/ask/compile.py",
        "        lower[entry] = max(low, lower.get(entry, low))\n",
        "        lower[entry] = min(low, lower.get(entry, low))\n",
        "an input that two runs share lies in both regions",
        AGREES,
    ),
    Mutant(
        "asked-numbers-that-are-no-doubles",
        "problem/formulas/arithmetic.py",
        "and Fraction(float(c)) == c)",
        "and True)",
        "the factors of a product are exact",
        ("ask/test_ask_agrees.py::test_numbers_in_products_are_doubles_or_refused",),
    ),
    Mutant(
        "asked-text-without-the-scale",
        "problem/vnnlib/writer.py",
        "limit, relation = rhs * scale",
        "limit, relation = rhs",
        "a constraint is multiplied as a whole",
        AGREES,
    ),
    Mutant(
        "asked-rows-in-another-scale",
        "problem/formulas/build.py",
        "factor * limit.value",
        "limit.value",
        "both sides of a row have the scale that was written",
        AGREES,
    ),
    Mutant(
        "asked-dropped-cases-have-no-margin",
        "problem/formulas/normal.py",
        "spare = least([facts.spare, spare, spare_of(formula)])",
        "spare = None",
        "a case that no input can be counts in the margin",
        MARGIN,
    ),
    Mutant(
        "asked-any-scale-of-equal-cases",
        "problem/formulas/normal.py",
        "(mine.scale is None or other.scale < mine.scale)",
        "False",
        "of equal comparisons in several units the smallest margin counts",
        MARGIN,
    ),
    Mutant(
        "asked-contradicting-limits-far-apart",
        "problem/formulas/normal.py",
        "distance / sum(1 / scale for scale in scales)",
        "distance * sum(scales)",
        "at some point both of two limits fail by less than their distance",
        MARGIN,
    ),
    Mutant(
        "asked-choices-in-other-units",
        "problem/formulas/choices.py",
        "scale = abs(factor) * min(_scales(formula))",
        "scale = abs(factor) * max(_scales(formula))",
        "the margin of a choice is none that one of its comparisons lacks",
        MARGIN,
    ),
)
