"""Workers on a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from netproof.campaign.devices import default_workers, resolve
from netproof.campaign.instances import Instance
from netproof.campaign.jobs import Job
from netproof.campaign.run import run
from netproof.campaign.store import Store
from netproof.campaign.summary import is_wrong
from netproof.demo import Instance as Question


@pytest.mark.gpu
def test_one_worker_a_card(demo: dict[str, tuple[Path, Path, Question]], tmp_path: Path) -> None:
    assert resolve("auto") == "cuda"
    jobs = []
    for name in ("fc-4-needs-splits", "fc-5-breaks", "conv-3-holds"):
        onnx, vnnlib, question = demo[name]
        jobs.append(Job(Instance("digits", onnx, vnnlib, 60.0, question.expected), "auto", timeout=60.0, device="cuda"))
    with Store(tmp_path / "results.sqlite") as store:
        results = run(jobs, store, workers=default_workers("cuda", None))
    assert [result.verdict for result in results] == ["unsat", "sat", "unsat"]
    assert not any(is_wrong(result) for result in results)
    for result in results:
        assert result.device == "cuda"
        assert result.versions["gpu"]
        assert result.peak_memory > 0
