"""Scores that a mask of −∞ hides from a softmax: as decoders have them, exact, and refused anywhere else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import netproof
from model.onnx_models import Model, ints
from netproof.errors import ModelError, UnsupportedOp
from netproof.model.load import load_network
from netproof.model.origin.cross_check import cross_check
from support.both_ways import box_spec, decided_both_ways

HIDDEN = -np.inf
LATER = np.triu(np.ones((3, 3), dtype=bool), 1)


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """As decoders write it themselves."""
    scores = (q @ k.transpose(-2, -1)).masked_fill(torch.from_numpy(LATER), HIDDEN)
    return torch.softmax(scores, -1) @ v


class Decoder(nn.Module):
    """Three tokens of two numbers, attention of each to those before it, and a number of the last."""

    def __init__(self, attend: Callable[..., Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.attend = nn.Linear(2, 18), nn.Linear(2, 1), attend

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.first(x).view(3, 1, 3, 2).unbind(0)
        return self.last(self.attend(q, k, v)[:, -1])


ATTEND: dict[str, Callable[..., Tensor]] = {
    "masked_fill": causal,
    "is_causal": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "attn_mask": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=torch.from_numpy(~LATER)),
}


@pytest.mark.parametrize("name", ATTEND)
def test_what_torch_exports_is_decided_both_ways(name: str, tmp_path: Path) -> None:
    decided_both_ways(Decoder(ATTEND[name]).eval(), torch.full((1, 2), -0.2), torch.full((1, 2), 0.8), tmp_path)


def test_an_encoder_with_a_mask_is_read() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True)

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer
            self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(3))

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x, src_mask=self.mask)[:, -1]

    network = load_network(Masked().eval(), example_shape=(1, 3, 4))  # compared with the module there
    assert network.graph.output.size == 4


@pytest.mark.parametrize("mask", ["causal", "truths", "infinite"])
def test_the_attention_operator_with_a_mask_agrees_with_onnxruntime(mask: str) -> None:
    masks = {"causal": [], "truths": [~LATER], "infinite": [np.where(LATER, HIDDEN, np.float32(0.3)).astype("f4")]}
    model = Model((1, 1, 3, 2), opset=23)
    model.add("Attention", "x", "x", "x", *masks[mask], is_causal=int(mask == "causal"))
    network = model.network()
    for x in np.random.default_rng(0).normal(size=(4, 1, 1, 3, 2)).astype(np.float32):
        ours = network.graph.forward(torch.from_numpy(x)[None].double())[0].numpy()
        assert np.abs(ours - network.replay(x)).max() < 1e-6


def added(*masks: np.ndarray) -> Model:
    """Scores (2, 3) with masks added, one after the other, and their softmax."""
    model, name = Model((2, 3)), "x"
    for k, mask in enumerate(masks):
        model.add("Add", name, mask, out=f"m{k}")
        name = f"m{k}"
    return model.add("Softmax", name, axis=-1)


def test_what_is_hidden_takes_no_part() -> None:
    """Each row is the softmax of what it shows, and 0 elsewhere; what the masks add besides counts."""
    first = np.float32([[0, HIDDEN, 0.5], [0, 0, 0]])
    second = np.float32([[0, 0, 0.25], [HIDDEN, 1, HIDDEN]])
    network = added(first, second).network()
    x = torch.randn(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = network.graph.forward(x[None])[0]
    assert torch.allclose(y[0, [0, 2]], torch.softmax(x[0, [0, 2]] + torch.tensor([0.0, 0.75]), 0), rtol=1e-12)
    assert y[0, 1] == 0.0
    assert y[1].tolist() == [0.0, 1.0, 0.0]
    cross_check(network, torch.randn(4, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))


def test_a_last_softmax_with_a_mask_is_not_compared_by_its_scores(tmp_path: Path) -> None:
    """The score that is hidden may be the largest; its entry is 0 all the same."""
    path = added(np.float32([[HIDDEN, 0, 0], [0, 0, 0]])).save(tmp_path / "net.onnx")
    spec = tmp_path / "spec.vnnlib"
    spec.write_text(box_spec(-torch.ones(6), torch.ones(6), 6, "(>= Y_0 Y_1)"))
    assert netproof.verify(path, spec, timeout=30, device="cpu").status == "unsat"
    spec.write_text(box_spec(-torch.ones(6), torch.ones(6), 6, "(>= Y_1 Y_2)"))
    assert netproof.verify(path, spec, timeout=30, device="cpu").status == "sat"


def asking_for_nan(kept: str) -> Model:
    """Where(IsNaN(log x), 0, kept)."""
    model = Model((2, 3)).add("Log", "x", out="l").add("IsNaN", "l", out="n")
    return model.add("Where", "n", np.float32(0), kept)


def test_what_has_a_bound_is_a_number(tmp_path: Path) -> None:
    """Where it has none, what stands in its place must not be taken for proved."""
    path = asking_for_nan("l").save(tmp_path / "net.onnx")
    spec = tmp_path / "spec.vnnlib"
    for low, status in ((0.5, "unsat"), (-0.5, "unknown")):
        spec.write_text(box_spec(torch.full((6,), low), torch.ones(6), 6, "(>= Y_0 0.5)"))
        assert netproof.verify(path, spec, timeout=5, device="cpu").status == status


NAN: dict[str, Callable[[], Model]] = {
    "kept": lambda: asking_for_nan("x"),
    "cast": lambda: Model((2, 3)).add("Log", "x", out="l").add("IsNaN", "l", out="n").add("Cast", "n", to=1),
    "output": lambda: Model((2, 3)).add("Log", "x", out="l").add("IsNaN", "l"),
}


@pytest.mark.parametrize("name", NAN)
def test_whether_a_value_is_nan_is_refused_elsewhere(name: str) -> None:
    with pytest.raises(ModelError, match="NaN"):
        NAN[name]().network()


MASK = np.float32([[0, HIDDEN, 0], [0, 0, 0]])
REFUSED: dict[str, tuple[Callable[[], Model], str]] = {
    "a row": (lambda: added(np.float32([[HIDDEN] * 3, [0] * 3])), "hidden throughout"),
    "another axis": (lambda: Model((2, 3)).add("Add", "x", MASK, out="m").add("Softmax", "m", axis=0), "not the last"),
    "a product": (lambda: Model((2, 3)).add("Mul", "x", MASK, out="m").add("Softmax", "m"), "NaN or infinity"),
    "another reader": (
        lambda: Model((2, 3)).add("Add", "x", MASK, out="m").add("Softmax", "m", out="s").add("Relu", "m", out="r").add(
            "Add", "s", "r"
        ),
        "Relu reads a value that holds NaN or infinity",
    ),
    "a logarithm": (
        lambda: Model((2, 3)).add("Softmax", "x", out="s").add("Add", "s", MASK, out="m").add("LogSoftmax", "m"),
        "LogSoftmax reads",
    ),
    "no number": (lambda: added(np.float32([[0, np.nan, 0], [0, 0, 0]])), "holds NaN or infinity"),
    "upwards": (lambda: added(-MASK), "holds NaN or infinity"),
    "an output": (lambda: Model((2, 3)).add("Softmax", "x", out="s").add("Add", "s", MASK), "is masked with -inf"),
    "by the input": (
        lambda: Model((2, 3)).add("Less", "x", np.float32(0), out="c")
        .add("Where", "c", "x", np.float32(HIDDEN), out="m").add("Softmax", "m"),
        "depends on the input",
    ),
    "an integer": (
        lambda: Model((2, 3)).add("Cast", MASK, to=7, out="i").add("Gather", "x", "i", out="g").add("Softmax", "g"),
        "cannot become an integer",
    ),
    "a constant output": (
        lambda: Model((2, 3)).add("Reshape", MASK, ints(6), out="y").add("Softmax", "x", out="s"), "not made of exact"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_elsewhere(name: str) -> None:
    build, said = REFUSED[name]
    with pytest.raises((ModelError, UnsupportedOp), match=said):
        build().network()
