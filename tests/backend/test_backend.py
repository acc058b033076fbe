"""ONNX's own backend suite: every case is right or refused by name, none is wrong, none crashes."""

from __future__ import annotations

import re

import pytest

from backend.suite import Result, cases, judge

PARTS = 4  # which take half a minute of computing together
RIGHT = 0.58  # share of the cases that are right, at least; how many there are depends on the onnx that is installed


@pytest.mark.parametrize("part", range(PARTS))
def test_every_case_is_right_or_refused_by_name(part: int) -> None:
    found = [judge(case) for case in cases()[part::PARTS]]
    assert [result for result in found if result.status in ("wrong", "crashed")] == []
    assert [result for result in found if result.status == "refused" and not _is_named(result)] == []
    assert sum(result.status == "right" for result in found) >= RIGHT * len(found)


def _is_named(result: Result) -> bool:
    """Say whether a refusal names the operator, the value or the opset that it is for, and what to do."""
    what = r"operator \S+:|initializer '|input '|opset|onnxruntime cannot run it|output '|node '"
    return re.search(what, result.text) is not None and result.text.endswith(")")


def test_the_suite_is_there() -> None:
    assert len(cases()) > 1200
