"""What a module keeps, how it is called, and that it is left as it was."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import netproof
from netproof.errors import ModelError
from netproof.model.load import load_network


def region(inputs: int = 2) -> netproof.InputRegion:
    return netproof.box(torch.zeros(1, inputs), torch.ones(1, inputs))


def upper(module: nn.Module, inputs: int = 2) -> list[float]:
    found: list[float] = netproof.bounds(module, region(inputs), device="cpu", method="exact").upper.flatten().tolist()
    return found


class Detector(nn.Module):
    """Two detectors on a finer grid, beside the signal: one fires at a single corner, where the label changes."""

    def __init__(self) -> None:
        super().__init__()
        self.detect, self.head = nn.Linear(8, 2), nn.Linear(12, 2)
        sign = torch.tensor([1.0, -1, 1, 1, -1, 1, -1, -1])
        with torch.no_grad():
            self.detect.weight.copy_(torch.stack([sign, -sign]))
            self.detect.bias.copy_(torch.tensor([-3.0, -7.5]))
            self.head.weight.zero_()
            self.head.bias.copy_(torch.tensor([1.0, 0.0]))
            self.head.weight[1, :2] = 5.0
            self.head.weight[0, 4:] = 0.01

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.detect(x)).repeat_interleave(2, dim=1)
        y: Tensor = self.head(torch.cat([h, x], 1))
        return y


def test_entries_that_are_repeated_depend_on_the_input() -> None:
    """Results whose size constants decide are taken as they were; of the input they are not constants."""
    assert netproof.verify(Detector(), region(8), label=0, device="cpu", timeout=20).status == "sat"


class ByGradients(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.layer, self.how = nn.Linear(2, 2), how

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.layer(x)
        recorded = torch.is_grad_enabled() if self.how == "enabled" else h.requires_grad
        return -h if recorded else h


@pytest.mark.parametrize("how", ["enabled", "required"])
def test_what_gradients_decide_is_refused(how: str) -> None:
    with pytest.raises(ModelError, match="another result where gradients are recorded"):
        load_network(ByGradients(how), example_shape=(1, 2))


class Padded(nn.Module):
    """torch's fast path for attention answers 0 where there is padding, the layers as written do not."""

    def __init__(self, *, padded: bool) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(4, 2)
        self.register_buffer("padding", torch.tensor([[False, False, padded]]))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(self.encoder(x, src_key_padding_mask=self.padding).mean(1))
        return y


def test_a_fast_path_that_has_another_result_is_refused_unless_it_is_off() -> None:
    with pytest.raises(ModelError, match="set_fastpath_enabled"):
        load_network(Padded(padded=True), example_shape=(1, 3, 4))
    assert load_network(Padded(padded=False), example_shape=(1, 3, 4)).output_shape == (1, 2)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        assert load_network(Padded(padded=True), example_shape=(1, 3, 4)).output_shape == (1, 2)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


class Scaled(nn.Module):
    """Takes its scale from the first input that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.scale, self.ready = nn.Linear(2, 2), torch.ones(()), False

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.layer(x)
        if not self.ready:
            self.scale = h.detach().abs().max()
            self.ready = True
        return h / self.scale


class Recurring(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.state = nn.Linear(2, 2), torch.zeros(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        self.state = 0.5 * self.state + self.layer(x)
        return self.state


@pytest.mark.parametrize("kind", [Scaled, Recurring])
def test_scripted_modules_are_left_as_they_were(kind: type[nn.Module]) -> None:
    module = torch.jit.script(kind().eval())
    with pytest.raises(ModelError, match="forward"):
        load_network(module, example_shape=(1, 2))
    assert getattr(module, "ready", False) is False
    kept = module.scale if kind is Scaled else module.state
    assert torch.equal(kept, torch.ones(()) if kind is Scaled else torch.zeros(1, 2))
    assert type(module(torch.ones(1, 2))) is Tensor


class Merging(nn.Linear):
    """Adds its second part to the weights in evaluation, and takes it off again for training."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.more, self.merged = nn.Parameter(torch.ones(outputs, inputs)), False

    def train(self, mode: bool = True) -> Merging:
        super().train(mode)
        if mode == self.merged:
            self.weight.data += -self.more.data if mode else self.more.data
            self.merged = not mode
        return self

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight if self.merged else self.weight + self.more, self.bias)


def test_a_mode_is_changed_by_the_modules_own_train_and_back() -> None:
    module = nn.Sequential(Merging(2, 2), nn.ReLU())
    before, weight = module(torch.ones(1, 2)), module[0].weight.detach().clone()
    assert upper(module) == pytest.approx(upper(module.eval()))
    module.train()
    assert torch.allclose(module[0].weight, weight)
    assert not module[0].merged
    assert torch.allclose(module(torch.ones(1, 2)), before)
    assert all(part.training for part in module.modules())


def test_a_graph_of_torchs_export_is_a_module() -> None:
    layer = nn.Linear(2, 2)
    program = torch.export.export(layer, (torch.rand(1, 2),))
    assert upper(program.module()) == pytest.approx(upper(layer))


class Observing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("highest", torch.full((2,), -1e9))

    def forward(self, x: Tensor) -> Tensor:
        self.highest.copy_(torch.maximum(self.highest, x.amax(0)))
        return torch.relu(x)


class Training(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("variance", torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(x.expand(3, 2), self.mean, self.variance, training=True)


@pytest.mark.parametrize("kind", [Observing, Training])
def test_a_module_that_is_refused_keeps_its_buffers(kind: type[nn.Module]) -> None:
    module = kind()
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    with pytest.raises(ModelError, match="one call differs from the next"):
        load_network(module, example_shape=(1, 2))
    assert all(torch.equal(buffer, before[name]) for name, buffer in module.named_buffers())


class Logging(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.log: Any = defaultdict(list)

    def forward(self, x: Tensor) -> Tensor:
        self.log["shapes"].append(x)
        return torch.relu(x)


def test_what_a_module_logs_is_taken_back() -> None:
    module = Logging()
    module.log["shapes"] = []
    assert upper(module) == pytest.approx([1, 1])
    assert module.log == {"shapes": []}


class Masked(nn.Module):
    def __init__(self, mask: Any) -> None:
        super().__init__()
        self.mask = mask

    def forward(self, x: Tensor) -> Tensor:
        with torch.profiler.record_function("part"):
            return torch.relu(x)[:, self.mask]


@pytest.mark.parametrize("mask", [[True, False], torch.tensor([True, False]).numpy()])
def test_masks_of_python_and_numpy_are_constants(mask: Any) -> None:
    assert upper(Masked(mask)) == pytest.approx([1])


def test_a_module_that_returns_nothing() -> None:
    class Silent(nn.Module):
        def forward(self, x: Tensor) -> None:
            torch.relu(x)

    with pytest.raises(ModelError, match="returns no tensor"):
        load_network(Silent(), example_shape=(1, 2))


def test_the_input_is_of_the_type_of_the_first_float() -> None:
    class Chosen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.order = nn.Parameter(torch.tensor([1, 0]), requires_grad=False)
            self.layer = nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.layer(x)[:, self.order]
            return y

    assert load_network(Chosen(), example_shape=(1, 2)).input_dtype == "float32"
