"""Memory that runs out while a model is read is one line that says so, wherever it happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnxruntime.capi.onnxruntime_pybind11_state import RuntimeException

import netproof
from model.onnx_models import small_net
from netproof.errors import DeviceError
from netproof.model import load, network
from netproof.model.onnx import context
from netproof.model.origin import cross_check

TORCH = RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes")
ONNXRUNTIME = RuntimeException("Failed to allocate memory for requested buffer of size 1")
STEPS = {
    "bytes": (load, "read_file", MemoryError()),
    "node": (context.Builder, "add", TORCH),
    "comparison": (cross_check, "evaluate_part", TORCH),
    "session": (network.onnxruntime, "InferenceSession", ONNXRUNTIME),
}


@pytest.mark.parametrize("step", STEPS)
def test_out_of_memory_is_one_line(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, error = STEPS[step]
    model = small_net().save(tmp_path / "m.onnx")

    def full(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(where, name, full)
    for call in (
        lambda: netproof.load_network(model),
        lambda: netproof.verify(str(model), netproof.linf_ball(np.zeros((1, 4)), 0.1), label=0),
    ):
        with pytest.raises(DeviceError) as caught:
            call()
        assert str(caught.value) == f"{model}: out of memory while it was read ({load.ROOM})"


def test_a_module_too() -> None:
    class Full(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise TORCH

    with pytest.raises(DeviceError, match="<torch module>: out of memory while it was read"):
        netproof.load_network(Full(), example_shape=(1, 4))
