"""Pieces of a random forward(): each adds lines of source, and says what shape x has after them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

Shape = tuple[int, ...]


@dataclass
class Writing:
    """Source in the making: `x` is the value so far, `shape` its shape."""

    rng: np.random.Generator
    shape: Shape
    top: list[str] = field(default_factory=list)
    init: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    count: int = 0

    @property
    def last(self) -> int:
        return self.shape[-1]

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def attribute(self, expression: str, prefix: str = "layer") -> str:
        """Name a new attribute of the module."""
        name = self.fresh(prefix)
        self.init.append(f"self.{name} = {expression}")
        return f"self.{name}"

    def buffer(self, expression: str) -> str:
        name = self.fresh("buffer")
        self.init.append(f'self.register_buffer("{name}", {expression})')
        return f"self.{name}"

    def write(self, *lines: str, last: int | None = None) -> None:
        self.body += lines
        if last is not None:
            self.shape = (*self.shape[:-1], last)

    def pick(self, *choices: str) -> str:
        return str(self.rng.choice(list(choices)))

    def whole(self, low: int, high: int) -> int:
        """Draw a whole number, both ends included."""
        return int(self.rng.integers(low, high + 1))

    def number(self, low: float = -1.0, high: float = 1.0) -> float:
        return round(float(self.rng.uniform(low, high)), 3)


# --- layers ---


def linear(w: Writing) -> None:
    size, bias = w.whole(2, 6), w.pick("True", "False")
    w.write(f"x = {w.attribute(f'nn.Linear({w.last}, {size}, bias={bias})')}(x)", last=size)


def bend(w: Writing) -> None:
    a, b = w.number(-1, 0), w.number(0.1, 1)
    w.write(
        w.pick(
            "x = torch.relu(x)",
            "x = F.relu(x * 1, inplace=True)",
            f"x = F.leaky_relu(x, {b})",
            f"x = x.clamp({a}, {b})",
            f"x = F.hardtanh(x, {a}, {b})",
            f"x = torch.maximum(x, {b} * x.flip(-1))",
            f"x = torch.where(x > {a}, x, {a} + {b} * (x - {a}))",
            "x = x.abs()",
            f"x = {w.attribute('nn.PReLU()')}(x)",
        )
    )


def curve(w: Writing) -> None:
    w.write(
        w.pick(
            *("x = torch.sigmoid(x)", "x = x.tanh()", "x = F.gelu(x)", "x = F.silu(x)", "x = F.softplus(x)"),
            *("x = torch.exp(-x.abs())", "x = x * x", "x = F.softmax(x, dim=-1)", "x = x / (1 + x.abs())"),
        )
    )


def attributes(w: Writing) -> None:
    """Operations with attributes other than the defaults, of numbers that may be large."""
    a, b, size = w.number(0.1, 2), w.number(0.1, 1), w.whole(1, 20)
    n = w.last
    if size > 5:
        w.write(f"x = {size} * x")
    w.write(
        w.pick(
            f"x = F.softplus(x, {a}, {size})",
            f"x = F.elu(x, {a})",
            f"x = F.celu(x, {a})",
            "x = F.gelu(x, approximate='tanh')",
            "x = F.hardswish(x)",
            "x = F.hardsigmoid(x)",
            "x = F.mish(x)",
            f"x = F.softshrink(x, {a})",
            f"x = F.leaky_relu(x, {-b})",
            f"x = F.leaky_relu(x, {1 + b})",
            f"x = F.layer_norm(x, ({n},), eps={a})",
            f"x = F.normalize(x, dim=-1, eps={a})",
            f"x = torch.sub(x, x.flip(-1), alpha={a})",
            f"x = torch.addcmul(x, x, x, value={b})",
            f"x = F.softmax({a} * x, dim=0)",
            "x = F.log_softmax(x, -1)",
            f"x = F.scaled_dot_product_attention(x, x, x.flip(-1), is_causal={w.pick('True', 'False')})"
            if len(w.shape) == 3
            else "x = F.relu6(x)",
            f"x = F.avg_pool1d(x, 2, 1, 1, count_include_pad={w.pick('True', 'False')})[..., :{n}]"
            if len(w.shape) in (2, 3)
            else "x = F.silu(x)",
        )
    )


def jump(w: Writing) -> None:
    a, b = w.number(), w.number(0.2, 1)
    w.write(
        w.pick(
            f"x = x + {b} * torch.floor(3 * x)",
            f"x = x - (x + {a}) // {b}",
            f"x = torch.where(x > {a}, x, -{b} * x)",
            f"x = x + {b} * torch.sign(x - {a})",
            f"x = x * (x > {a}).to(x.dtype)",
            f"x = x + torch.div(x, {b}, rounding_mode='floor')",
            f"x = x.masked_fill(x > {b}, {a})",
        )
    )


def norm(w: Writing) -> None:
    if len(w.shape) == 2:
        layer = w.attribute(f"moved(nn.BatchNorm1d({w.last}))")
        w.write(f"x = {w.pick(layer, w.attribute(f'nn.LayerNorm({w.last})'))}(x)")
    else:
        w.write(f"x = {w.attribute(f'nn.LayerNorm({w.last})')}(x)")


def residual(w: Writing) -> None:
    first, second = (w.attribute(f"nn.Linear({w.last}, {w.last})") for _ in range(2))
    w.write(f"x = x + {second}(torch.relu({first}(x)))")


def several_layers(w: Writing) -> None:
    layers = w.attribute(f"nn.ModuleList(nn.Linear({w.last}, {w.last}) for _ in range({w.whole(2, 3)}))")
    w.write(f"for i, layer in enumerate({layers}):", "    x = layer(x) if i % 2 else torch.relu(layer(x)) + x")


def shared(w: Writing) -> None:
    layer = w.attribute(f"nn.Linear({w.last}, {w.last})")
    other = w.attribute(f"nn.Linear({w.last}, {w.last})")
    w.init.append(f"{other}.weight = {layer}.weight")
    w.write(
        w.pick(
            f"x = {layer}({other}(x).relu())",
            f"x = {layer}({layer}(x))",
            f"x = F.linear({layer}(x), {layer}.weight.t())",
        )
    )


def parametrized(w: Writing) -> None:
    layer = w.attribute(f"nn.Linear({w.last}, {w.last})")
    w.init.append(
        w.pick(
            f"parametrize.register_parametrization({layer}, 'weight', Doubling())",
            f"parametrizations.weight_norm({layer})",
            f"nn.utils.weight_norm({layer})",
            f"parametrizations.spectral_norm({layer})",
            f"parametrize.register_parametrization({layer}, 'bias', nn.Tanh())",
        )
    )
    w.write(f"x = {layer}(x)")


def hooked(w: Writing) -> None:
    layer = w.attribute(f"nn.Linear({w.last}, {w.last})")
    a = w.number(0.5, 2)
    w.init.append(
        layer
        + w.pick(
            f".register_forward_hook(lambda module, given, answer: {a} * answer.relu())",
            f".register_forward_pre_hook(lambda module, given: (given[0] + {a},))",
            ".register_forward_hook(lambda module, given, answer: self.kept.update(seen=answer.detach()))",
            f".register_full_backward_hook(lambda module, given, answer: None)",  # noqa: F541
        )
    )
    w.write(f"x = {layer}(x)")


def functional(w: Writing) -> None:
    layer = w.attribute(f"nn.Linear({w.last}, {w.last})")
    w.write(
        f"weights = {{name: {w.number(0.5, 2)} * value for name, value in {layer}.named_parameters()}}",
        f"x = torch.func.functional_call({layer}, weights, (x,))",
    )


def inert(w: Writing) -> None:
    w.write(
        w.pick(
            f"x = {w.attribute('nn.Dropout(0.5)')}(x)",
            "x = F.dropout(x, 0.5, self.training)",
            "x = checkpoint(torch.tanh, x, use_reentrant=False)",
            "self.kept['x'] = x",
            "self.calls += 1",
            "x = x if not torch.is_grad_enabled() else x * 1",
            "x = x.contiguous()",
            "x = Straight.apply(x)",
            "x = torch.func.vmap(lambda row: 2 * row)(x)",
        )
    )


def scripted(w: Writing) -> None:
    name = w.fresh("scripted")
    w.top += ["@torch.jit.script", f"def {name}(x: Tensor) -> Tensor:"]
    w.top += [
        f"    {line}"
        for line in w.rng.choice(
            [
                "return torch.relu(x) * 2 - 0.5\n",
                "if x.size(-1) > 3:\n    return x * 2\nreturn x.flip([-1])",
                "y = x.clone()\nfor _ in range(2):\n    y = torch.relu(y) - 0.1\nreturn y",
                "assert x.dim() > 0\nreturn x.abs()",
            ]
        ).split("\n")
        if line
    ]
    w.write(f"x = {name}(x)")


def wrapped(w: Writing) -> None:
    inner = f"nn.Sequential(nn.Linear({w.last}, 4), nn.ReLU(), nn.Linear(4, {w.last})).eval()"
    example = f"torch.zeros({w.shape})"
    layer = w.attribute(
        w.pick(
            f"torch.jit.script({inner})",
            f"torch.jit.trace({inner}, {example})",
            f"torch.fx.symbolic_trace({inner})",
            f"torch.compile({inner}, backend='eager')",
        )
    )
    w.write(f"x = {layer}(x)")


# --- constants ---


def constants(w: Writing) -> None:
    n = w.last
    buffer = w.buffer(f"torch.rand({n})")
    parameter = w.attribute(f"nn.Parameter(torch.rand({n}))", "parameter")
    w.write(
        w.pick(
            f"x = x * {buffer} + {buffer}.flip(0)",
            f"x = x + {parameter} * {buffer}",
            "x = x * torch.arange(x.shape[-1], dtype=x.dtype, device=x.device)",
            f"x = x + x.new_tensor({[w.number() for _ in range(n)]})",
            f"x = x + torch.linspace(-1, 1, {n}).to(x)",
            f"x = x + torch.full_like(x, {w.number()})",
            f"x = x @ torch.eye({n}).to(x).flip(0)",
            f"x = x * torch.as_tensor(np.linspace(0, 1, {n})).to(x.dtype)",
            f"x = x + {w.attribute(f'torch.linspace(0, 1, {n})', 'plain')}.to(x.dtype)",
        )
    )


def steered_by_parameters(w: Writing) -> None:
    parameter = w.attribute(f"nn.Parameter(torch.tensor({w.number()}))", "parameter")
    mask = w.buffer(f"torch.rand({w.last}) > 0.5")
    w.write(
        *w.pick(
            f"x = x * 2 if {parameter}.item() > 0 else -x",
            f"if {mask}.all() or bool({mask}.sum() > 1):\n    x = torch.where({mask}, x, 0.5 * x)",
            f"for value in {mask}.tolist():\n    x = x + 1 if value else 2 * x",
            f"x = torch.cat([x[..., {mask}], x[..., ~{mask}]], -1)",
            f"x = x + float({parameter}.detach().numpy())",
            f"x = x + len({mask}.nonzero())",
            "mask = torch.ones(x.shape[-1], dtype=torch.bool)\nif mask.all():\n    x = x[..., mask]",
        ).split("\n")
    )


def cached(w: Writing) -> None:
    w.write(
        "if x.shape not in self.kept:",
        "    self.kept[x.shape] = torch.arange(x.shape[-1]).to(x.dtype) / 4",
        "x = x + self.kept[x.shape]",
    )


# --- control flow by shape ---


def by_shape(w: Writing) -> None:
    a = w.number()
    w.write(
        *w.pick(
            "if x.shape[-1] % 2 == 0:\n    x = torch.cat(x.chunk(2, -1)[::-1], -1)\nelse:\n    x = x.flip(-1)",
            f"for i in range(x.shape[-1]):\n    x = x + {a} * x[..., i : i + 1]",
            "old = x.shape\nwhile x.dim() < 5:\n    x = 2 * x.unsqueeze(0)\nx = x.reshape(old)",
            "assert x.shape[-1] > 0, 'empty'\nx = -x",
            "match x.dim():\n    case 2 | 3:\n        x = 2 * x\n    case _:\n        x = -x",
            "total = sum(part * i for i, part in enumerate(x.unbind(-1)))\nx = x + total.unsqueeze(-1)",
            "x = x[..., list(range(x.size(-1) - 1, -1, -1))] if len(x) > 0 else x",
            "try:\n    x = x.reshape(7, -1, 11).reshape(x.shape)\nexcept RuntimeError:\n    x = x + 1",
            "if not isinstance(x, Tensor) or not x.is_floating_point():\n    raise TypeError(type(x))",
            "x = x * (2 if x.is_contiguous() and x.stride(-1) == 1 else 3) / x.size(-1)",
            "if x.requires_grad or self.training:\n    x = -x",
            "x = {1: torch.relu, 2: torch.tanh, 3: torch.abs}.get(x.ndim, torch.sigmoid)(x)",
        ).split("\n")
    )


def recursive(w: Writing) -> None:
    name = w.fresh("folded")
    w.top += [
        f"def {name}(x):",
        "    if x.shape[-1] == 1:",
        "        return x",
        "    half = x.shape[-1] // 2",
        f"    return torch.{w.pick('maximum', 'minimum', 'add')}({name}(x[..., :half]), {name}(x[..., half:]))",
    ]
    w.write(f"x = torch.cat([x, {name}(x)], -1)", last=w.last + 1)


# --- views and writes ---


def moved(w: Writing) -> None:
    n, k = w.last, w.whole(0, w.last - 1)
    w.write(
        w.pick(
            f"x = x.roll({k}, -1)",
            f"x = torch.cat([x[..., {k}:], x[..., :{k}]], -1)",
            f"x = x[..., {[int(i) for i in w.rng.permutation(n)]}]",
            f"x = x.index_select(-1, torch.tensor({[int(i) for i in w.rng.integers(0, n, n)]}))",
            "x = torch.stack(x.unbind(-1)[::-1], -1)",
            "x = x.reshape(-1).flip(0).view(x.shape)",
            "x = x.transpose(-1, 0).contiguous().transpose(-1, 0)",
            "x = F.pad(x, (1, 1))[..., 1:-1]",
            "x = x.unsqueeze(-1).expand(*x.shape, 2).mean(-1)",
            "x = torch.cumsum(x, -1)",
            f"x = x.as_strided(x.shape, x.stride()) + {w.number()}",
            f"x = torch.einsum('...i,ij->...j', x, {w.attribute(f'nn.Parameter(torch.rand({n}, {n}))', 'matrix')})",
            "x = x + x.mean(-1, keepdim=True) - x.amax(-1, keepdim=True)",
        )
    )


def widened(w: Writing) -> None:
    w.write(w.pick("x = torch.cat([x, -x], -1)", "x = x.repeat_interleave(2, dim=-1)"), last=2 * w.last)


def written(w: Writing) -> None:
    """Write into memory of our own, whole or through views of it."""
    a, n = w.number(), w.last
    w.write(
        w.pick("out = torch.zeros_like(x)", "out = x.new_zeros(x.shape)", "out = torch.zeros(x.shape, dtype=x.dtype)"),
        *w.pick(
            "out[..., 0] = x[..., -1]",
            f"out[..., : {w.whole(1, n)}] += 2 * x[..., : {w.whole(1, 1)}]",
            f"for i in range(x.shape[-1]):\n    out[..., i] = x[..., i] * {a}",
            "out.copy_(x).mul_(2)",
            "for part, value in zip(out.chunk(2, -1), x.chunk(2, -1)):\n    part.copy_(value)",
            "for part, value in zip(out.unbind(-1), x.unbind(-1)):\n    part.add_(value)",
            "view = out.view(-1)\nview[:2].add_(x.reshape(-1)[:2])",
            "out.transpose(-1, 0).copy_(x.transpose(-1, 0))",
            "torch.mul(x, 2, out=out)",
            "torch._foreach_copy_([out[..., i] for i in range(x.shape[-1])], list(x.unbind(-1)))",
            "row = out[..., :1]\nout += x\nx = x + row",
            "out[x.abs() > 0.25] = 1.0",
            "out.index_copy_(-1, torch.arange(x.shape[-1]).flip(0), x)",
            "out.scatter_(-1, torch.zeros_like(x, dtype=torch.long), x.amax(-1, keepdim=True).expand(x.shape))",
            "out.masked_scatter_(torch.ones_like(x, dtype=torch.bool), x)",
            "out.detach().add_(x)",
            "out.diagonal(0, 0, -1).fill_(1.0) if out.dim() > 1 else out.add_(x)",
        ).split("\n"),
        w.pick("x = out", "x = x + out", "x = torch.relu(out) - x"),
    )


def in_place(w: Writing) -> None:
    change = w.pick("x.mul_(2).add_(1)", "x[..., 0] += 1", "x[..., 1:].clamp_(min=0)", "x.sub_(x.mean())")
    w.write("x = x.clone()", change)


# --- images and sequences ---


def convolution(w: Writing) -> None:
    batch, channels, height, width = w.shape
    filters = w.whole(1, 3)
    kind = w.whole(0, 2)
    if kind == 0:
        w.write(f"x = {w.attribute(f'nn.Conv2d({channels}, {filters}, 3, padding=1)')}(x)")
        w.shape = (batch, filters, height, width)
    elif kind == 1 and min(height, width) > 1:
        w.write(f"x = {w.attribute(w.pick('nn.AvgPool2d(2)', 'nn.MaxPool2d(2)'))}(x)")
        w.shape = (batch, channels, height // 2, width // 2)
    else:
        w.write(f"x = {w.attribute(f'moved(nn.BatchNorm2d({channels}))')}(x)")


def attention(w: Writing) -> None:
    layer = w.attribute(f"nn.MultiheadAttention({w.last}, 1, batch_first=True)")
    mask = "mask = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).triu(1)"
    w.write(
        *w.pick(
            f"x = {layer}(x, x, x, need_weights=False)[0]",
            f"x = x + {layer}(x, x, x)[0]",
            f"{mask}\nx = {layer}(x, x, x, attn_mask=mask)[0]",
            f"{mask}\nx = F.scaled_dot_product_attention(x, x, x, attn_mask=~mask)",
            f"x = {w.attribute(f'nn.TransformerEncoderLayer({w.last}, 1, 4, batch_first=True)')}(x)",
        ).split("\n")
    )


def mixed_rows(w: Writing) -> None:
    w.write(
        w.pick("x = x + x.mean(-2, keepdim=True)", "x = x.flip(-2)", "x = torch.stack(x.unbind(-2)[::-1], -2)"),
        w.pick("x = x - x[..., :1, :]", "x = x * x.shape[-2]"),
    )


class Piece(NamedTuple):
    share: float
    fits: Callable[[Shape], bool]
    make: Callable[[Writing], None]


def _any(shape: Shape) -> bool:
    return True


def _vectors(shape: Shape) -> bool:
    return len(shape) < 4


PIECES: dict[str, Piece] = {
    "linear": Piece(3, _vectors, linear),
    "bend": Piece(3, _any, bend),
    "curve": Piece(0.7, _any, curve),
    "attributes": Piece(1, _any, attributes),
    "jump": Piece(0.7, _any, jump),
    "norm": Piece(0.7, _vectors, norm),
    "residual": Piece(0.7, _vectors, residual),
    "several_layers": Piece(0.7, _vectors, several_layers),
    "shared": Piece(0.7, _vectors, shared),
    "parametrized": Piece(0.7, _vectors, parametrized),
    "hooked": Piece(1, _vectors, hooked),
    "functional": Piece(0.3, _vectors, functional),
    "inert": Piece(1, _any, inert),
    "scripted": Piece(0.7, _any, scripted),
    "wrapped": Piece(0.5, _vectors, wrapped),
    "constants": Piece(1.5, _any, constants),
    "steered_by_parameters": Piece(1, _any, steered_by_parameters),
    "cached": Piece(0.5, _any, cached),
    "by_shape": Piece(3, _any, by_shape),
    "recursive": Piece(0.5, _vectors, recursive),
    "moved": Piece(1.5, _any, moved),
    "widened": Piece(0.4, _vectors, widened),
    "written": Piece(2, _any, written),
    "in_place": Piece(1, _any, in_place),
    "convolution": Piece(6, lambda shape: len(shape) == 4, convolution),
    "attention": Piece(2, lambda shape: len(shape) == 3, attention),
    "mixed_rows": Piece(2, lambda shape: len(shape) > 1 and shape[-2] > 1, mixed_rows),
}
