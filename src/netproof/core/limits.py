"""The one limit of size: what a file may ask for, however small it is itself.

A file of 200 bytes can declare a constant of 24 GB, and a packed file can unpack to terabytes. So whatever is not there
as bytes (folded constants, declared shapes, pads, windows, layers) may have LARGEST numbers at most, plus one per byte
of the model; and no file, packed or not, is read beyond LARGEST_FILE bytes. It is checked before memory is taken.
"""

from __future__ import annotations

from collections.abc import Iterable

LARGEST = 1 << 25  # numbers: 256 MiB in float64, and checking a network takes several times that
LARGEST_FILE = 32 * LARGEST  # bytes, unpacked: 1 GiB


def entries(shape: Iterable[int]) -> int:
    """Count the numbers in an array of this shape; an axis of size zero counts as one, so that the others count."""
    count = 1
    for size in shape:
        count *= max(1, int(size))
    return count
