"""The one limit of size: what a file may ask for, however small it is itself.

A file of 200 bytes can declare a constant of 24 GB, and a packed file can unpack to terabytes. So whatever is not there
as bytes (folded constants, declared shapes, pads, windows, layers) may come to LARGEST numbers and no more, plus one
for each byte of the model; and no file, packed or not, is read beyond LARGEST_FILE bytes. It is checked before memory
is taken.
"""

from __future__ import annotations

from collections.abc import Iterable

LARGEST = 1 << 25  # numbers: 256 MiB in float64, of which checking a network takes several
LARGEST_FILE = 32 * LARGEST  # bytes, unpacked: 1 GiB


def entries(shape: Iterable[int]) -> int:
    """How many numbers an array of this shape has; an axis of size zero counts as one, for the others' sake."""
    count = 1
    for size in shape:
        count *= max(1, int(size))
    return count
