"""A module is called with the shape that the caller gives; a batch axis is added only where it does not run without."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import netproof
from netproof.api import attack
from netproof.model.load import load_network


class Means(nn.Module):
    """(B, T, 1) -> (B, 2): the mean over time of two scores."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, -x], -1).mean(1)


class Of(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.inner(x, x, x, need_weights=False)[0]
        return answer


def scaled_attention(x: Tensor) -> Tensor:
    return nn.functional.scaled_dot_product_attention(x, 2 * x, x - 1)


# Each of these runs on the shape and on (1, *shape), most of them with other results.
BOTH: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear-vector": (lambda: nn.Linear(4, 2), (4,)),
    "linear-rows": (lambda: nn.Linear(4, 2), (3, 4)),
    "linear-sequence": (lambda: nn.Linear(4, 2), (1, 3, 4)),
    "linear-image": (lambda: nn.Linear(4, 2), (1, 2, 3, 4)),
    "convolution": (lambda: nn.Conv2d(1, 2, 3), (1, 5, 5)),
    "convolution-1d": (lambda: nn.Conv1d(1, 2, 3), (1, 6)),
    "convolution-and-flatten": (lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten()), (1, 5, 5)),
    "transposed-convolution": (lambda: nn.ConvTranspose2d(1, 2, 2), (1, 3, 3)),
    "max-pool": (lambda: nn.MaxPool2d(2), (1, 4, 4)),
    "adaptive-pool": (lambda: nn.AdaptiveAvgPool2d(1), (1, 4, 4)),
    "attention": (Attention, (3, 4)),
    "attention-by-function": (lambda: Of(scaled_attention), (1, 3, 4)),
    "encoder-layer": (lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), (3, 4)),
    "recurrent": (lambda: nn.RNN(2, 3, batch_first=True), (4, 2)),
    "means": (Means, (1, 4, 1)),
    "mean-of-axis-0": (lambda: Of(lambda x: x.mean(0)), (1, 3, 2)),
    "mean-of-axis-1": (lambda: Of(lambda x: torch.relu(x).mean(1)), (2, 3)),
    "sum-of-all-but-the-first": (lambda: Of(lambda x: x.flatten(1).sum(1)), (2, 3, 2)),
    "softmax-of-axis-1": (lambda: nn.Softmax(dim=1), (1, 4, 3)),
    "instance-norm": (lambda: nn.InstanceNorm1d(2), (2, 5)),
    "flipped": (lambda: Of(lambda x: x.flip(0) + torch.arange(3.0)), (1, 3, 3)),
    "size-of-the-batch": (lambda: Of(lambda x: x * x.shape[0]), (2, 3)),
}


@pytest.mark.filterwarnings("ignore:the module is called with shape")
@pytest.mark.parametrize("name", BOTH)
def test_a_module_is_called_as_the_caller_calls_it(name: str) -> None:
    made, shape = BOTH[name]
    torch.manual_seed(0)
    module, x = made().eval(), torch.randn(shape)
    with torch.no_grad():
        answer = module(x)
        module(x[None])  # it runs on both
    wanted = torch.cat([part.flatten() for part in answer]) if isinstance(answer, tuple) else answer.flatten()
    network = load_network(module, example_shape=shape)
    assert network.input_shape == shape
    ours = network.graph.forward(x[None].double()).flatten()
    assert torch.allclose(ours, wanted.double(), atol=1e-5)
    found = netproof.bounds(module, netproof.linf_ball(x, 0), method="ibp", device="cpu")
    np.testing.assert_allclose(found.lower.flatten(), wanted.numpy(), atol=1e-4)
    variables, _ = netproof.variables(module, shape)
    assert variables.size == x.numel()


def test_a_batch_of_one_sequence_is_proved_as_it_is_read() -> None:
    module, x = Means().eval(), torch.tensor([[[10.0], [-9.0], [-9.0], [-9.0]]])
    note = r"shape \(1, 4, 1\); on \(1, 1, 4, 1\) it runs too, with another result"
    with pytest.warns(UserWarning, match=note) as said:
        assert netproof.verify(module, netproof.linf_ball(x, 0.01), label=1, device="cpu").proved
    assert said[0].filename == __file__
    with pytest.warns(UserWarning, match=note):
        broken = netproof.verify(module, netproof.linf_ball(x, 0.01), label=0, device="cpu")
    assert broken.witness is not None
    assert broken.witness.input.shape == (1, 4, 1)
    with pytest.warns(UserWarning, match=note):
        assert attack(module, netproof.linf_ball(x, 0.01), label=0, device="cpu").broken
    with pytest.warns(UserWarning, match=note):
        assert netproof.largest_eps(module, x, first=0.01, timeout=60, device="cpu").predicted == 1


@pytest.mark.parametrize("shape", [(2, 8, 8), (1, 2, 8, 8)])
def test_a_batch_axis_is_added_where_the_module_needs_one(shape: tuple[int, ...]) -> None:
    module = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network = load_network(module, example_shape=shape)
    assert network.input_shape == (1, 2, 8, 8)
    assert network.notes == ()


@pytest.mark.filterwarnings("ignore:the module is called with shape")
@pytest.mark.parametrize(
    ("module", "shape", "called"),
    [
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(18, 2)), (1, 5, 5), (1, 1, 5, 5)),
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(18, 2)), (1, 1, 5, 5), (1, 1, 5, 5)),
        (nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), (4,), (1, 4)),
        (Of(lambda x: torch.cat([x, -x], -1).mean(1)), (4, 1), (1, 4, 1)),
        (nn.Sequential(nn.Unflatten(1, (2, 2)), nn.Flatten(), nn.Linear(4, 2)), (1, 4), (1, 4)),
    ],
)
def test_a_stack_is_given_one_entry_at_a_time(
    module: nn.Module, shape: tuple[int, ...], called: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    X = torch.randn(5, *shape)
    with torch.no_grad():
        labels = torch.stack([module(x.reshape(called)).argmax() for x in X])
    found = netproof.certify(module, X.numpy(), labels.numpy(), 1e-4, device="cpu")
    assert [image.status for image in found.images] == ["proved"] * 5
