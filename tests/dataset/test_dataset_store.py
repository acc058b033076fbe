"""The answers of a data set, as they are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from netproof.dataset.result import ImageResult, ImageStatus
from netproof.dataset.store import Kept, Store

PROVED, OPEN = ImageStatus.PROVED, ImageStatus.OPEN


@pytest.mark.parametrize(
    ("first", "then", "stays"), [(PROVED, OPEN, PROVED), (OPEN, PROVED, PROVED), (OPEN, OPEN, OPEN)]
)
def test_what_is_decided_stays(first: ImageStatus, then: ImageStatus, stays: ImageStatus, tmp_path: Path) -> None:
    """A proof may be asked for again, for its certificate, with less time than it took."""
    with Store(tmp_path / "s.sqlite") as store:
        for seconds, status in ((1.0, first), (2.0, then)):
            store.add(Kept(ImageResult(0, 3, 3, status, seconds), "0"))
        kept = store.answers()[0].result
    assert (kept.status, kept.seconds) == (stays, 1.0 if (first, then) == (PROVED, OPEN) else 2.0)
