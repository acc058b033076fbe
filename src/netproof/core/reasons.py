"""Reasons of a verdict that programs look for, so that each is written once."""

INTERRUPTED = "interrupted"
EMPTY = "input set is empty"
CONTRADICTION = "contradiction"  # the evidence speaks against itself: a bug in netproof, never an answer
