"""A torch module stands for the graph made of it: where its Python looks at values, or both differ, it is refused."""

from __future__ import annotations

import copy
import re
import tracemalloc
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import netproof
from netproof.errors import ModelError, UsageError
from netproof.model.evaluate import float_error
from netproof.model.load import load_network
from netproof.model.origin.likeness import compare

Forward = Callable[[nn.Module, Tensor], Tensor]


class Net(nn.Module):
    """Two layers around a piece of Python."""

    def __init__(self, between: Forward) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2)
        self.threshold = nn.Parameter(torch.tensor(0.5))
        self.register_buffer("kept", torch.ones(4))
        self.between = between

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu(self.between(self, self.first(x))))


def scaled_by_loop(net: nn.Module, x: Tensor) -> Tensor:
    while x.abs().sum() > 1e-3:
        x = x / 4
    return x


def through_a_view(net: nn.Module, x: Tensor) -> Tensor:
    """The branch looks at memory that the input was written to."""
    memory = torch.zeros(1, 4)
    view = memory[:, :2]
    memory.copy_(x)
    return x if view.sum() > 0 else -x


def through_out(net: nn.Module, x: Tensor) -> Tensor:
    memory = torch.empty_like(x)
    torch.add(x, 1, out=memory)
    return x * memory.sum().item()


def checked(net: nn.Module, x: Tensor) -> Tensor:
    assert x.max() < 1e9
    return x


STEERED: dict[str, Forward] = {
    "branch": lambda net, x: x.flip(-1) if x.max() > 5 else x,
    "branch-detached": lambda net, x: -x if x.detach().cpu().sum() > 5 else x,
    "branch-data": lambda net, x: -x if x.data.sum() > 5 else x,
    "deepcopy": lambda net, x: x + copy.deepcopy(x).relu(),
    "dlpack": lambda net, x: x + torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x)).relu(),
    "repr": lambda net, x: x if "0.49" in repr(x) else -x,
    "format": lambda net, x: x if "0.49" in f"{x.sum()}" else -x,
    "item": lambda net, x: x * x.sum().item(),
    "int": lambda net, x: x * int(x.sum()),
    "float": lambda net, x: x * float(x.sum()),
    "index": lambda net, x: x * [1.0, 2.0, 3.0, 4.0][x.argmax()],
    "tolist": lambda net, x: torch.tensor(x.tolist()),
    "numpy": lambda net, x: torch.from_numpy(x.numpy() * 1),
    "asarray": lambda net, x: torch.from_numpy(np.asarray(x) * 1),
    "equal": lambda net, x: x if torch.equal(x, x.abs()) else -x,
    "allclose": lambda net, x: x if torch.allclose(x, x.abs()) else -x,
    "any-entry": lambda net, x: x if any(entry > 0 for entry in x[0]) else -x,
    "mask": lambda net, x: x.new_zeros(1, 4) + x[x > 0].sum(),
    "nonzero": lambda net, x: x * x.nonzero().shape[0],
    "loop": scaled_by_loop,
    "view": through_a_view,
    "out": through_out,
    "assert": checked,
}


@pytest.mark.parametrize("name", STEERED)
def test_values_that_steer_python(name: str) -> None:
    module = Net(STEERED[name]).train()
    with pytest.raises(ModelError, match=r"forward.. looks at values of its input at ") as caught:
        load_network(module, example_shape=(1, 4))
    told = re.search(rf"{re.escape(Path(__file__).name)}:(\d+)", str(caught.value))
    assert told is not None
    code = STEERED[name].__code__
    assert code.co_firstlineno <= int(told[1]) <= code.co_firstlineno + 6
    assert module.training


def by_shape(net: nn.Module, x: Tensor) -> Tensor:
    assert x.shape[1] == 4
    half = x.shape[1] // 2
    if x.size(0) > 0 and int(x.shape[1]) > 2 and len(x) == 1:
        x = torch.cat([x[:, half:], x[:, :half]], dim=1)
    return x.view(x.size(0), -1)


def repeated(net: nn.Module, x: Tensor) -> Tensor:
    for i in range(x.shape[-1]):
        x = x + i
    return x


STEADY: dict[str, Forward] = {
    "shape": by_shape,
    "loop-over-shape": repeated,
    "parameter": lambda net, x: x * net.threshold.item() if net.threshold > 0 else x,
    "buffer": lambda net, x: x * float(net.kept.sum()),
    "constant-list": lambda net, x: x + torch.tensor(net.kept.tolist()),
    "fixed-order": lambda net, x: x[:, [2, 0, 1, 3]],
    "rows": lambda net, x: torch.stack(list(x)),
    "data": lambda net, x: x + x.data.sub(0.4994).abs().relu(),
    "halves": lambda net, x: torch.cat(x.chunk(2, dim=1), dim=1),
}


@pytest.mark.parametrize("name", STEADY)
def test_shapes_and_parameters_may_steer(name: str) -> None:
    module = Net(STEADY[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network = load_network(module, example_shape=(1, 4))
    x = torch.rand(1, 4)
    with torch.no_grad():
        assert torch.allclose(network.graph.forward(x[None].double())[0], module(x).double(), atol=1e-5)


def test_a_mask_that_only_assigns_is_not_python(tmp_path: Path) -> None:
    """torch can trace it, as a choice by a comparison, which netproof reads."""

    def zeroed(net: nn.Module, x: Tensor) -> Tensor:
        x = x.clone()
        x[x > 1] = 0.0
        return x

    module = Net(zeroed)
    network = load_network(module, example_shape=(1, 4))
    x = torch.tensor([[0.5, 1.0, 1.5, -2.0]])
    assert torch.allclose(network.graph.forward(x[None].double())[0], module(x).double(), atol=1e-5)


@pytest.mark.parametrize(
    "asks",
    [torch.jit.is_tracing, torch.onnx.is_in_onnx_export, torch.compiler.is_exporting, torch.compiler.is_compiling],
)
def test_a_module_cannot_tell_that_it_is_exported(asks: Callable[[], bool]) -> None:
    module = Net(lambda net, x: x if asks() else x + 1)
    network = load_network(module, example_shape=(1, 4))
    x = torch.rand(1, 4)
    with torch.no_grad():
        assert torch.allclose(network.graph.forward(x[None].double())[0], module(x).double(), atol=1e-5)


def test_a_module_that_differs_on_the_input_set_only() -> None:
    """Where no operation shows that it looks at values, the set's own points do."""
    far: list[bool] = []

    def hidden(net: nn.Module, x: Tensor) -> Tensor:
        return x.flip(-1) if far else x

    module = Net(hidden)
    network = load_network(module, example_shape=(1, 4))
    region = netproof.linf_ball(torch.full((1, 4), 9.0), 0.5)
    assert netproof.verify(network, region, label=0, timeout=30, device="cpu").status in ("sat", "unsat")
    far.append(True)
    with pytest.raises(ModelError, match="does not compute"):
        netproof.verify(network, region, label=0, timeout=30, device="cpu")


class Logarithm(nn.Module):
    """log(x + offset), of which `below` has no number in the module alone."""

    def __init__(self, offset: float) -> None:
        super().__init__()
        self.offset, self.below = offset, -torch.inf

    def forward(self, x: Tensor) -> Tensor:
        y = torch.log(x + self.offset)
        return y if torch.onnx.is_in_onnx_export() or self.below == -torch.inf else torch.where(x < self.below, nan, y)


nan = torch.tensor(torch.nan)


def test_where_neither_has_a_number_other_points_tell() -> None:
    load_network(Logarithm(0.0), example_shape=(1, 4))
    with pytest.raises(ModelError, match="no finite number at any point"):
        load_network(Logarithm(-5.0), example_shape=(1, 4))


def test_where_only_the_module_has_no_number_they_differ() -> None:
    module = Logarithm(0.0)
    network = load_network(module, example_shape=(1, 4))
    module.below = 0.5
    with pytest.raises(ModelError, match=r"does not compute.*: nan against -?[0-9]"):
        compare(network, torch.full((1, 1, 4), 0.25, dtype=torch.float64))


def test_a_module_trained_on_is_no_longer_the_network() -> None:
    module = Net(lambda net, x: x)
    network = load_network(module, example_shape=(4,))
    points = torch.rand(3, 4, dtype=torch.float64)
    compare(network, points)
    with torch.no_grad():
        module.second.weight += 0.01
    with pytest.raises(ModelError, match=r"load (it|the module) again"):
        compare(network, points)


@pytest.mark.parametrize("seed", range(5))
def test_rounding_is_no_difference(seed: int) -> None:
    torch.manual_seed(seed)
    module = nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.LeakyReLU(0.1), nn.AvgPool2d(2)),
        *(nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 5)),
    )
    assert isinstance(module[1], nn.BatchNorm2d)
    assert module[1].running_var is not None
    module[1].running_var.uniform_(1e-6, 2.0)
    network = load_network(module, example_shape=(1, 1, 8, 8))
    compare(network, 100.0 * torch.randn(20, 1, 1, 8, 8, dtype=torch.float64))


def test_where_no_bound_on_rounding_is_finite_what_is_seen_of_it_tells() -> None:
    """Behind layers of attention the bound on float32's rounding is infinite, and the answers are near all the same."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True, norm_first=True)
    module = nn.Sequential(nn.TransformerEncoder(layer, 3, enable_nested_tensor=False), nn.Flatten(), nn.Linear(12, 2))
    network = load_network(module, example_shape=(1, 3, 4))
    points = torch.rand(3, 1, 3, 4, dtype=torch.float64)
    assert bool(float_error(network.graph, points, torch.float32).isinf().all())
    compare(network, points)
    last = module[-1]
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        last.weight[0, 0] += 1e-4
    with pytest.raises(ModelError, match="does not compute what its exported graph does"):
        compare(network, points)


def test_float32_attributes_of_a_float64_module_are_no_difference() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, eps=0.1), nn.ReLU(), nn.Linear(3, 2)).double()
    network = load_network(module, example_shape=(1, 4))
    assert network.input_dtype == "float64"
    compare(network, torch.randn(20, 1, 4, dtype=torch.float64))


def test_what_the_caller_has_switched_on_stays_on() -> None:
    torch.set_float32_matmul_precision("medium")
    try:
        module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2)).train()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            load_network(module, example_shape=(1, 4))
            assert torch.is_autocast_enabled("cpu")
        assert torch.get_float32_matmul_precision() == "medium"
        assert all(part.training for part in module.modules())
        assert torch.is_grad_enabled()
    finally:
        torch.set_float32_matmul_precision("highest")


def test_torch_prints_nothing_where_it_cannot_export(capfd: pytest.CaptureFixture[str]) -> None:
    module = parametrizations.orthogonal(nn.Linear(4, 4)).eval()
    torch._C._jit_set_onnx_log_enabled(True)  # as every export of the user's own leaves it
    with pytest.raises(ModelError, match="torch cannot export the module"):
        netproof.load_network(module, example_shape=(1, 4))
    assert capfd.readouterr() == ("", "")


def test_whatever_the_exporter_raises_is_one_line() -> None:
    """Of an empty vector beside a matrix, as caches of language models are at first, it only asserts something."""
    module = Net(lambda net, x: torch.cat([torch.tensor([]), x], -1))
    with pytest.raises(ModelError, match="torch cannot export the module: AssertionError"):
        load_network(module, example_shape=(1, 4))


def test_a_number_is_an_output() -> None:
    class Energy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.square().sum()

    bounds = netproof.bounds(Energy(), netproof.box([[1.0, 2.0]], [[2.0, 3.0]]), device="cpu")
    assert bounds.lower == pytest.approx([5.0])
    assert bounds.upper == pytest.approx([13.0])


def test_one_tensor_in_a_tuple_is_one_output() -> None:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> tuple[Tensor]:
            return (self.inner(x),)

    assert load_network(Wrapped(), example_shape=(1, 4)).output_shape == (1, 2)


@pytest.mark.parametrize("shape", [(3.0,), "3", 3, (-3,), (10**12,), (True,), ()])
def test_an_example_shape_that_is_none(shape: object) -> None:
    with pytest.raises(UsageError, match="example_shape"):
        load_network(nn.Linear(3, 2), example_shape=shape)  # type: ignore[arg-type]


def test_modules_in_several_threads() -> None:
    """torch's exporter is one for the process, and a module that is shared keeps its mode."""
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).train()
    with ThreadPoolExecutor(4) as pool:
        networks = list(pool.map(lambda _: load_network(module, example_shape=(1, 4)), range(8)))
    assert {network.sha256 for network in networks} == {networks[0].sha256}
    assert module.training


def test_long_loops_of_python_take_little_memory() -> None:
    """Every step of bytecode is kept of three runs: eight bytes each, and no object that a collector must visit."""

    class Counting(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            total = 0
            for k in range(30_000):
                total += k
            return x + total

    load_network(Counting(), example_shape=(1, 2))  # what is loaded first counts elsewhere
    tracemalloc.start()
    try:
        load_network(Counting(), example_shape=(1, 2))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 15e6
