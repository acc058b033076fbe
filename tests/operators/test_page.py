"""docs/operators.md is what the registry says, and has what it should."""

from __future__ import annotations

from support.operators_page import PAGE, own, rewritten

# What is to be supported, by kind. Sums, matrices, convolutions and movements were before.
WANTED = {
    "hinges": "MaxPool GlobalMaxPool Max Min Clip HardSigmoid Abs PRelu Sign Floor Round Greater Less Equal",
    "smooth": "Sigmoid Tanh Softplus Elu Selu Celu Gelu Erf Swish Mish HardSwish Exp Log Sqrt Reciprocal Pow Sin Cos",
    "several": "Mul Div MatMul Softmax LogSoftmax LayerNormalization InstanceNormalization LSTM GRU",
    "data": "Resize Upsample Expand Where ScatterND Tile ArgMax Conv ConvTranspose AveragePool",
}


def test_page_is_made_from_the_registry() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == rewritten(text), "run `python -m support.operators_page` in tests"


def test_every_operator_says_how_it_is_treated() -> None:
    assert [name for name, converter in own().items() if not (converter.__doc__ or "").strip()] == []


def test_nothing_that_is_wanted_is_missing() -> None:
    missing = {kind: [name for name in names.split() if name not in own()] for kind, names in WANTED.items()}
    assert {kind: names for kind, names in missing.items() if names} == {}
