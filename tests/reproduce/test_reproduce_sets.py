"""The paper's sets as folders: which boxes they have, and what was published of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from netproof.errors import UsageError
from netproof.paper.sets import LIMIT, Boxes, PaperSet, find_sets
from netproof.paper.tables.rows import published_row
from support.paper_sets import make_sets


def test_published_figures_are_read_as_they_are(sets: dict[str, PaperSet]) -> None:
    wide = sets["oval_wide"]
    assert list(wide.published) == ["BaBSR", "MIPplanet", "GNN", "GNN-online"]
    babsr = published_row("BaBSR", wide, wide.published["BaBSR"])
    assert (babsr.mean_s, babsr.branches, babsr.timed_out, babsr.solved) == (200.0, 40.0, 50.0, 50.0)
    mip = published_row("MIPplanet", wide, wide.published["MIPplanet"])
    assert (mip.branches, mip.timed_out) == (None, 100.0)
    assert published_row("GNN", wide, wide.published["GNN"]).branches == 25.0


def test_published_figures_end_at_the_papers_limit(tmp_path: Path) -> None:
    """What was solved after 3600 s is timed out, has no branches and counts 3600 s, as in the paper's tables."""
    data = make_sets(tmp_path, "unsat", "unsat", names=("oval_deep",))
    file = data / "oval_deep" / "published.csv"
    file.write_text(file.read_text().replace("False,40,100.0", "False,40,5000.0").replace("3600.1", "7200.0"))
    (deep,) = find_sets(data, ["oval_deep"]).values()
    babsr = published_row("BaBSR", deep, deep.published["BaBSR"])
    assert (babsr.mean_s, babsr.branches, babsr.timed_out, babsr.limit) == ((LIMIT + 300.0) / 2, None, 100.0, LIMIT)
    assert published_row("MIPplanet", deep, deep.published["MIPplanet"]).mean_s == LIMIT


def test_boxes_are_told_by_themselves(sets: dict[str, PaperSet], clipped: dict[str, PaperSet]) -> None:
    """The folder's name is the same."""
    assert sets["oval_wide"].boxes == Boxes(2, 0)
    assert sets["oval_wide"].title == "Wide, boxes x ± ε"
    assert clipped["oval_wide"].boxes == Boxes(2, 2)
    assert clipped["oval_wide"].title == "Wide, boxes clipped in 2 of 2"


def test_digits_lost_in_a_file_are_no_clipping(tmp_path: Path) -> None:
    make_sets(tmp_path, "unsat", names=("oval_wide",), widths=(0.2, 0.2000002))
    assert find_sets(tmp_path, ["oval_wide"])["oval_wide"].boxes.clipped == 0


def test_which_boxes_are_taken(tmp_path: Path) -> None:
    make_sets(tmp_path, "unsat", names=("oval_wide",), widths=(0.2, 0.1))
    only = {"data": tmp_path, "names": ["oval_wide"]}
    assert list(find_sets(**only)) == ["oval_wide"]
    with pytest.raises(UsageError, match=r"oval_wide_unclipped/instances\.csv"):
        find_sets(**only, boxes="unclipped")
    make_sets(tmp_path, "unsat", names=("oval_wide_unclipped",))
    assert list(find_sets(**only)) == ["oval_wide_unclipped"]
    assert list(find_sets(**only, boxes="clipped")) == ["oval_wide"]
    assert list(find_sets(**only, boxes="both")) == ["oval_wide_unclipped", "oval_wide"]
    assert list(find_sets(tmp_path, ["oval_wide_unclipped", "oval_wide"], boxes="clipped")) == ["oval_wide"]
    with pytest.raises(UsageError, match="unknown kind 'round'"):
        find_sets(**only, boxes="round")


@pytest.mark.parametrize(
    ("text", "word"),
    [("vnnlib\n0-unsat.vnnlib\n", "babsr"), ("", "0-unsat"), ("vnnlib,babsr_result\nother,False\n", "0-unsat")],
)
def test_published_figures_of_something_else(sets: dict[str, PaperSet], text: str, word: str) -> None:
    folder = sets["oval_wide"].instances[0].folder
    assert folder is not None
    file = folder / "published.csv"
    file.write_text(text)
    with pytest.raises(UsageError, match=word) as caught:
        find_sets(folder.parent, ["oval_wide"])
    assert str(file) in str(caught.value)


def test_without_published_figures(sets: dict[str, PaperSet]) -> None:
    folder = sets["oval_wide"].instances[0].folder
    assert folder is not None
    (folder / "published.csv").unlink()
    with pytest.raises(UsageError, match=r"published\.csv"):
        find_sets(folder.parent, ["oval_wide"])
    assert find_sets(folder.parent, ["oval_wide"], published=False)["oval_wide"].published == {}


def test_sets_that_are_not_there(tmp_path: Path) -> None:
    make_sets(tmp_path, "unsat", names=("oval_wide",))
    with pytest.raises(UsageError, match=r"oval_deep/instances\.csv"):
        find_sets(tmp_path, ("oval_wide", "oval_deep"))
    with pytest.raises(UsageError, match="unknown set 'oval'"):
        find_sets(tmp_path, ("oval",))
    with pytest.raises(UsageError, match="no such folder"):
        find_sets(tmp_path / "gone", ("oval_wide",))
    with pytest.raises(UsageError, match="--first: 0"):
        find_sets(tmp_path, ("oval_wide",), 0)
    make_sets(tmp_path, "unsat", "unsat", names=("oval_wide",))
    assert len(find_sets(tmp_path, ("oval_wide",), 1)["oval_wide"].instances) == 1
