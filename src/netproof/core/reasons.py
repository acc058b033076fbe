"""Reasons of a verdict that programs look for, so that each is written once."""

INTERRUPTED = "interrupted"
EMPTY = "input set is empty"
NOTHING = "no output can violate the property"
EQUAL = "the outputs that it asks to differ are equal, whatever the input is"
BEYOND = "the outputs never lie beyond what it asks for, whatever the input is"
CONTRADICTORY = "the assertions contradict each other, whatever the network computes"
CONTRADICTION = "contradiction"  # the evidence contradicts itself: a bug in netproof, never an answer
ROOT_LATE = "the root was not bounded in time"
INTERVALS_ONLY = "there was time for intervals alone, not for the root"
ROUNDING = "within rounding"  # onnxruntime's float32 run violates the property, exact arithmetic does not confirm it
UNSHOWN = "no counterexample can be shown"  # the set holds no number of the network's type
PINNED = "an input pinned to a value that float32 cannot hold was rounded to the nearest float32"


def pinned(dtype: str) -> str:
    """Return PINNED for an input of this type."""
    return PINNED.replace("float32", dtype)
