"""What the images of a data set that are decided together may take from each other: nothing."""

from __future__ import annotations

from mutants.mutant import Mutant

CERTIFY = ("dataset/test_certify.py",)

MUTANTS = (
    Mutant(
        "certify-concludes-from-what-was-given-up",
        "dataset/together.py",
        "            if self._gone[place]:\n                continue\n",
        "",
        "the sub-domains of an image that is given up were dropped, not proved",
        CERTIFY,
    ),
    Mutant(
        "certify-proves-by-any-bound",
        "dataset/together.py",
        "shares = [Fraction(int(bound > 0)) for bound in mine.tolist()]",
        "shares = [Fraction(int(bound > -0.1)) for bound in mine.tolist()]",
        "a target is proved by a bound above 0",
        CERTIFY,
    ),
    Mutant(
        "certify-bounds-of-another-image",
        "dataset/together.py",
        "            first += len(mine)\n",
        "",
        "each image has the bounds of its own targets",
        CERTIFY,
    ),
    Mutant(
        "certify-takes-a-part-for-the-whole",
        "dataset/cases.py",
        "done = [share == 1 for share in shares]",
        "done = [share >= 0 for share in shares]",
        "a target counts once its whole set is proved",
        CERTIFY,
    ),
    Mutant(
        "certify-reads-no-image",
        "dataset/cases.py",
        "    if predicted != item.label:\n",
        "    if False:\n",
        "an image that is misread is said to be that",
        CERTIFY,
    ),
)
