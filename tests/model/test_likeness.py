"""A graph is compared with its module bit for bit at the points that matter, and operation by operation."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

import netproof
from netproof.errors import ModelError
from netproof.model.load import load_network
from netproof.model.origin import capture, torch_module
from netproof.model.origin.capture import Recorded
from netproof.model.origin.likeness import compare

POCKET = 5.99  # a lie is told above


class Liar(nn.Module):
    """Below the pocket both labels are as the recording has them; what `lies` makes of it is another question."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2, bias=False)
        with torch.no_grad():
            self.layer.weight.copy_(torch.tensor([[1.0, 1.0], [0.0, 0.1]]))
        self.lies = False

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x)
        return y.flip(-1) if self.lies and float(x.min()) > POCKET else y


def region() -> netproof.InputRegion:
    return netproof.box([[1.0, 1.0]], [[6.0, 6.0]])


def test_a_lie_in_a_corner_of_the_set_is_found_before_the_search() -> None:
    module = Liar()
    network = load_network(module, example_shape=(1, 2))
    assert netproof.verify(network, region(), label=0, device="cpu").proved
    module.lies = True
    with pytest.raises(ModelError, match="does not compute what its exported graph does"):
        netproof.verify(network, region(), label=0, device="cpu")


class Hole(nn.Module):
    """|x − 0.3| over a network: the least margin lies inside the set, where there is no corner."""

    def __init__(self) -> None:
        super().__init__()
        self.lies = False

    def forward(self, x: Tensor) -> Tensor:
        away = (x - 0.3217).abs().sum(-1, keepdim=True)
        if self.lies and float(away) < 1e-2:
            away = away - 1.0
        return torch.cat([away + 0.5, torch.zeros_like(away)], -1)


def test_a_lie_is_found_where_the_attack_comes_nearest_to_a_violation() -> None:
    module = Hole()
    network = load_network(module, example_shape=(1, 1))
    inside = netproof.box([[0.0]], [[1.0]])
    assert netproof.verify(network, inside, label=0, device="cpu").proved
    module.lies = True
    with pytest.raises(ModelError, match="does not compute what its exported graph does"):
        netproof.verify(network, inside, label=0, device="cpu", method="beta", attack=True)


def test_weights_that_differ_by_one_rounding_are_seen_in_a_deep_network() -> None:
    """Behind layers of attention no bound on all of the rounding is finite: each operation is compared by itself."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True, norm_first=True)
    module = nn.Sequential(nn.TransformerEncoder(layer, 3, enable_nested_tensor=False), nn.Flatten(), nn.Linear(12, 2))
    network = load_network(module, example_shape=(1, 3, 4))
    points = torch.rand(3, 1, 3, 4, dtype=torch.float64)
    compare(network, points)
    weight = module[0].layers[0].linear1.weight  # type: ignore[union-attr,index]
    with torch.no_grad():
        weight[0, 0] += 1e-4  # type: ignore[operator,index]
    with pytest.raises(ModelError, match=r"rounding explains .*, in operation linear"):
        compare(network, points)


Wrong = Callable[[Tensor], Tensor]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (torch.ops.aten.floor.default, lambda x: x.int().float()),  # as an exporter once wrote floor_divide
        (torch.ops.aten.relu.default, nn.functional.relu6),
        (torch.ops.aten.gelu.default, lambda x: nn.functional.gelu(x, approximate="tanh")),
        (torch.ops.aten.tanh.default, lambda x: torch.tanh(x) * (1 + 1e-5)),
    ],
)
def test_an_operation_that_is_exported_wrongly_is_found(
    right: object, wrong: Wrong, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The graph has another operation than the module, which differs little or in few places."""
    name = str(right).split(".")[1]

    class Layers(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            function = getattr(torch, name, None) or getattr(nn.functional, name)
            answer: Tensor = function(20 * x) + 0.1 * x
            return answer

    load_network(Layers(), example_shape=(1, 8))
    monkeypatch.setitem(capture._SAME, right, wrong)
    with pytest.raises(ModelError, match="does not compute what its exported graph does"):
        load_network(Layers(), example_shape=(1, 8))


def test_what_is_exported_is_compared_with_what_was_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that has other numbers than the recording: the first operation that uses them is named."""
    to_onnx = torch_module._to_onnx

    def changed(recorded: Recorded, example: Tensor) -> bytes:
        weight = recorded.module.get_parameter("2.weight")
        with torch.no_grad():
            before = weight.clone()
            weight += 1e-3
            data = to_onnx(recorded, example)
            weight.copy_(before)
        return data

    monkeypatch.setattr(torch_module, "_to_onnx", changed)
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    with pytest.raises(ModelError, match="in operation linear_1"):
        load_network(module, example_shape=(1, 3))


def test_an_operation_that_is_exported_wrongly_for_some_numbers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has ReLU6 for ReLU: both are the same near 0, where the module was read."""
    to_onnx = torch_module._to_onnx

    def changed(recorded: Recorded, example: Tensor) -> bytes:
        for node in recorded.module.graph.find_nodes(op="call_function", target=torch.ops.aten.relu.default):
            node.target = torch.ops.aten.relu6.default
        recorded.module.recompile()
        data = to_onnx(recorded, example)
        for node in recorded.module.graph.find_nodes(op="call_function", target=torch.ops.aten.relu6.default):
            node.target = torch.ops.aten.relu.default
        recorded.module.recompile()
        return data

    monkeypatch.setattr(torch_module, "_to_onnx", changed)
    network = load_network(nn.ReLU(), example_shape=(1, 2))
    everywhere = netproof.box([[-1.0, -1.0]], [[7.0, 7.0]])
    with pytest.raises(ModelError, match="does not compute what its exported graph does"):
        netproof.bounds(network, everywhere, device="cpu")


def test_an_answer_that_is_a_constant_of_the_file_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    class Constant(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return 2 * x, torch.full_like(x, 3.0)

    load_network(Constant(), example_shape=(1, 2))
    to_onnx = torch_module._to_onnx

    def changed(recorded: Recorded, example: Tensor) -> bytes:
        model = onnx.ModelProto.FromString(to_onnx(recorded, example))
        for node in model.graph.node:
            for attribute in node.attribute:
                if attribute.t.float_data or attribute.t.raw_data:
                    numbers = onnx.numpy_helper.to_array(attribute.t)
                    attribute.t.CopyFrom(onnx.numpy_helper.from_array(np.where(numbers == 3, 4, numbers)))
        return model.SerializeToString()

    monkeypatch.setattr(torch_module, "_to_onnx", changed)
    with pytest.raises(ModelError, match="at output 2: 3 against 4"):
        load_network(Constant(), example_shape=(1, 2))


@pytest.mark.parametrize("beta", [1.0, 2.0])
@pytest.mark.parametrize("threshold", [-1.0, 2.0, 20.0, 50.0])
def test_softplus_has_its_threshold(beta: float, threshold: float) -> None:
    """torch's exporter leaves it out: above it softplus is its argument itself."""

    class Difference(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.softplus(x, beta, threshold) - x

    module = Difference()
    for x in (-3.0, 0.5, 1.5, 2.5, 30.0):
        found = netproof.bounds(module, netproof.linf_ball([[x]], 1e-4), device="cpu", method="exact")
        theirs = float(module(torch.tensor([[x]])))
        assert found.lower.item() - 1e-5 <= theirs <= found.upper.item() + 1e-5


class Least(nn.Module):
    """|x − 0.3217|, less 1 near its least value where it lies."""

    def __init__(self) -> None:
        super().__init__()
        self.lies = False

    def forward(self, x: Tensor) -> Tensor:
        away = (x - 0.3217).abs()
        return away - 1.0 if self.lies and float(away) < 1e-3 else away


def test_exact_bounds_are_compared_where_they_are_attained() -> None:
    module = Least()
    network = load_network(module, example_shape=(1, 1))
    inside = netproof.box([[0.0]], [[1.0]])
    assert netproof.bounds(network, inside, method="exact", device="cpu").exact
    module.lies = True
    with pytest.raises(ModelError, match="does not compute what its exported graph does"):
        netproof.bounds(network, inside, method="exact", device="cpu")


@pytest.mark.parametrize("attack", [True, False])
@pytest.mark.parametrize("place", [0, 11])
def test_every_image_of_a_data_set_is_compared(place: int, attack: bool) -> None:
    """Also the last of many, and also where no attack calls the module."""
    images = np.linspace(1.0, 5.0, 12, dtype=np.float32)[:, None] * np.ones((1, 2), np.float32)

    class Lies(Liar):
        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.layer(x)
            return y.flip(-1) if self.lies and abs(float(x.min() - images[place, 0])) < 0.02 else y

    module = Lies()
    network = load_network(module, example_shape=(1, 2))
    labels = np.zeros(12, dtype=int)
    asked = {"eps": 0.01, "device": "cpu", "attack": attack}
    assert len(netproof.certify(network, images, labels, **asked).images) == 12
    module.lies = True
    with pytest.raises(ModelError, match="does not compute what its exported graph does"):
        netproof.certify(network, images, labels, **asked)


def test_an_image_that_is_misread_is_compared() -> None:
    module = Liar()
    network = load_network(module, example_shape=(1, 2))
    module.lies = True
    with pytest.raises(ModelError, match="does not compute what its exported graph does"):
        netproof.certify(network, np.full((1, 2), 6.0, np.float32), np.array([1]), eps=0.01, device="cpu")


class Keeps(nn.Module):
    """Keeps what it was called with, and how often it was."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.kept, self.log = nn.Linear(2, 2), None, list[int]()

    def forward(self, x: Tensor) -> Tensor:
        self.kept = x  # type: ignore[assignment]
        self.log.append(1)
        return self.layer(x)  # type: ignore[no-any-return]


def test_a_module_is_left_as_it_was() -> None:
    module = Keeps()
    netproof.verify(module, netproof.box([[-1.0, -1.0]], [[1.0, 1.0]]), label=0, device="cpu")
    assert module.kept is None
    assert module.log == []


def test_a_network_of_a_module_is_copied_and_pickled() -> None:
    module = nn.Sequential(nn.Linear(2, 4), nn.Softplus(threshold=2.0), nn.MaxPool1d(2), nn.Linear(2, 2))
    network = load_network(module, example_shape=(1, 2))
    inside = netproof.box([[0.0, 0.0]], [[0.1, 0.1]])
    expected = netproof.bounds(network, inside, device="cpu").lower
    for other in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        assert np.array_equal(netproof.bounds(other, inside, device="cpu").lower, expected)


def test_a_module_may_be_moved_to_another_type() -> None:
    """Then other numbers come out, and all of the network's rounding is allowed; a lie is still one."""
    module = Liar()
    network = load_network(module, example_shape=(1, 2))
    points = torch.full((1, 1, 2), 6.0, dtype=torch.float64)
    module.double()
    compare(network, points)
    module.lies = True
    with pytest.raises(ModelError, match="where rounding explains"):
        compare(network, points)


def test_a_module_that_writes_to_its_input_leaves_points_alone() -> None:
    class InPlace(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x *= 2
            return x.flip(-1)

    for module in (InPlace(), nn.Sequential(nn.Linear(2, 2).double(), InPlace())):
        load_network(module, example_shape=(1, 2))


IN_PLACE: dict[str, Callable[[Tensor], Tensor]] = {
    "fresh": lambda x: (2 * x).relu_() + 1,
    "read before": lambda x: (y := 2 * x).exp() + y.relu_(),
    "read after": lambda x: (y := 2 * x).relu_() + y.exp(),
    "a view before": lambda x: (y := 2 * x, y[:, :2], y.relu_())[1] + 1,
    "a view after": lambda x: (y := 2 * x, y.relu_())[0][:, 1:].sum(1, keepdim=True),
    "of a view": lambda x: (y := 2 * x, y[:, :2].neg_())[0],
    "the same tensor by another name": lambda x: (y := 2 * x, y.reshape(1, 4), y.relu_())[1],
    "sums": lambda x: torch.zeros(1, 4).add_(x).mul_(x).sub_(0.5),
    "twice": lambda x: (y := 2 * x).relu_().sub_(1).relu_() + y,
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_what_is_written_in_place_is_read_as_it_is(name: str) -> None:
    class Layers(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return IN_PLACE[name](x)

    network = load_network(Layers(), example_shape=(1, 4))
    for x in torch.randn(5, 1, 4):
        ours = network.graph.forward(x[None].double())[0]
        assert torch.allclose(ours, Layers()(x.clone()).double(), atol=1e-6)


def test_an_alias_that_a_recording_loses_is_seen() -> None:
    """In evaluation mode dropout answers with its input itself, which a recording takes for a copy."""

    class Layers(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = 2 * x
            same = nn.functional.dropout(y, 0.5, training=False)
            y.relu_()
            return same

    with pytest.raises(ModelError, match="does not compute what its exported graph does"):
        load_network(Layers(), example_shape=(1, 4))


@pytest.mark.parametrize("bias", [[0.0, 1000.0], [np.nan, 1000.0], [np.nan, 0.0], [np.inf, 0.0]])
def test_what_is_no_number_hides_nothing(bias: list[float]) -> None:
    """One entry that is not finite must not excuse the others of its tensor, nor itself."""
    module = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
    network = load_network(module, example_shape=(1, 2))
    module[2].bias.data = torch.tensor(bias)
    with pytest.raises(ModelError, match="does not compute what its exported graph does"):
        netproof.bounds(network, netproof.box([[-1.0, -1.0]], [[1.0, 1.0]]), device="cpu")


class Overflows(nn.Module):
    """1 / (1 + e^(100 x)), whose exponential is infinite in float32 where x > 1."""

    def forward(self, x: Tensor) -> Tensor:
        return 1.0 / (1.0 + torch.exp(100.0 * x))


def test_an_operation_is_compared_where_its_inputs_are_finite() -> None:
    network = load_network(Overflows(), example_shape=(1, 1))
    assert compare(network, torch.tensor([[[2.0]], [[-0.5]], [[0.25]]], dtype=torch.float64))


class Counts(nn.Module):
    """A buffer, or a plain number, that every call puts in the place of another."""

    def __init__(self, *, buffer: bool) -> None:
        super().__init__()
        self.register_buffer("calls", torch.tensor(1.0))
        self.plain, self.by_buffer = 1, buffer

    def forward(self, x: Tensor) -> Tensor:
        if self.by_buffer:
            self.calls = self.calls + 1
        else:
            self.plain += 1
        return torch.relu(x) * 0 + self.calls + self.plain


@pytest.mark.parametrize("buffer", [False, True])
def test_a_module_that_counts_its_calls_is_refused(buffer: bool) -> None:
    with pytest.raises(ModelError, match=r"one call differs from the next, at .*test_likeness\.py"):
        load_network(Counts(buffer=buffer), example_shape=(1, 2))


def test_a_buffer_that_is_made_in_the_first_call_is_kept() -> None:
    class Lazy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("factors", None)

        def forward(self, x: Tensor) -> Tensor:
            if self.factors is None:
                self.factors = 2 * torch.ones(x.shape[-1])
            return torch.relu(x) * self.factors

    module = Lazy()
    found = netproof.bounds(module, netproof.box([[1.0, 1.0]], [[2.0, 2.0]]), device="cpu")
    assert found.lower.flatten().tolist() == pytest.approx([2, 2])
    assert module.factors is None


class WritesAPart(nn.Module):
    """A module behind which memory is written to by parts, so that torch writes its whole graph anew."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        x = self.inner(x)
        memory = x.new_zeros(x.shape)
        memory[:, :2].copy_(x[:, 2:])
        return memory + x


class Adds(nn.Module):
    def __init__(self, add: Callable[..., Tensor]) -> None:
        super().__init__()
        self.add, self.layer = add, nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.add(self.layer(x), x, x.abs() + 1, value=0.3)


FLOAT64: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "leaky": (nn.Sequential(nn.Linear(4, 4), nn.LeakyReLU(0.1)), (1, 4)),
    "random": (nn.Sequential(nn.Linear(4, 4), nn.RReLU()), (1, 4)),
    "batch": (nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, eps=0.3)), (1, 4)),
    "batch, no weights": (nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, affine=False)), (1, 4)),
    "layer": (nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4, eps=0.3)), (1, 4)),
    "in place beside": (WritesAPart(nn.Sequential(nn.BatchNorm1d(4, eps=0.3), nn.LayerNorm(4, eps=0.3))), (1, 4)),
    "addcmul": (Adds(torch.addcmul), (1, 4)),
    "addcdiv": (Adds(torch.addcdiv), (1, 4)),
    "lerp": (Adds(lambda a, b, c, value: torch.lerp(a, b * c, value)), (1, 4)),
    "layer, two axes": (nn.LayerNorm([3, 4], elementwise_affine=False), (1, 3, 4)),
}


@pytest.mark.parametrize("name", FLOAT64)
def test_numbers_of_operations_are_float64_in_float64(name: str) -> None:
    """ONNX keeps them as attributes, which are float32: 0.1 would be 0.100000001."""
    module, shape = FLOAT64[name]
    module = copy.deepcopy(module).double()
    x = torch.rand(shape, dtype=torch.float64) - 0.5
    found = netproof.bounds(module, netproof.linf_ball(x, 0), device="cpu", method="exact")
    theirs = module.eval()(x).detach().numpy()
    assert (found.lower <= theirs).all()
    assert (theirs <= found.upper).all()
    assert (found.upper - found.lower).max() < 1e-6


def test_a_module_of_buffers_alone_has_their_type() -> None:
    class Scales(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", torch.rand(3, 2, dtype=torch.float64))

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(x @ self.weight)

    assert load_network(Scales(), example_shape=(1, 3)).input_dtype == "float64"


def test_a_tensor_is_set_to_zero_in_place() -> None:
    class Clears(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            memory = x + 1
            memory.zero_()
            return memory + torch.relu(x)

    assert load_network(Clears(), example_shape=(1, 3)).output_shape == (1, 3)


def test_a_mismatch_names_a_line_of_the_users() -> None:
    for module, place in (
        (Liar(), r"operation linear at .*test_likeness.py:\d+"),
        (nn.Linear(2, 2), "operation linear"),
    ):
        runner = load_network(module, example_shape=(1, 2)).reference
        assert runner is not None
        assert re.fullmatch(place, runner.recorded.operations[0].place)
