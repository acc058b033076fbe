"""Random networks that read their input through one integer combination t, and bend where t goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hunt.bends import slope_below, windows
from hunt.maps import Sums, sums_of
from hunt.network import BENDS, HINGES, SMOOTH, Builder, Layer, Network

LEAKS = (0.0625, 0.1, 0.3, 0.9)
GRID = 33  # values of t that biases are chosen by


class Grower(Builder):
    """A builder that knows every layer's values on a grid of t, so that a bias can make a hinge turn there."""

    def __init__(self, rng: np.random.Generator, direction: Sequence[int], reach: tuple[float, float], *shape: int):
        super().__init__(*shape)
        self.rng, self.direction = rng, np.array(direction, dtype=np.float64)
        self.t = np.linspace(*reach, GRID)
        self.values: list[np.ndarray] = [np.zeros((GRID, 0))]  # (t, element); the input's are not needed

    def enter(self, slopes: np.ndarray) -> int:
        """The first layer: elements slope·t + bias that turn within reach; a Gemm, or a kernel of the image's size."""
        slopes = coarse(slopes)
        bias = -slopes * self.rng.choice(self.t, len(slopes))
        weight = np.outer(slopes, self.direction)
        shape = self.layers[0].shape
        if len(shape) > 2 and self.rng.random() < 0.5:
            place = self.conv(0, weight.reshape(-1, *shape[1:]), bias)
        else:
            place = self.gemm(0, weight, bias)
        self._know(np.outer(self.t, slopes) + np.float32(bias))
        return place

    def linear(self, place: int, width: int, *, centred: bool = True, wide: float = 1.0) -> int:
        """A Gemm of Gaussian weights whose elements turn where t goes."""
        weight = coarse(self.rng.normal(scale=wide / self.size(place) ** 0.5, size=(width, self.size(place))))
        h = self.values_of(place) @ weight.T
        shift = h[self.rng.integers(GRID, size=width), np.arange(width)] if centred else -self.rng.normal(size=width)
        return self.gemm(place, weight, -shift)

    def values_of(self, place: int) -> np.ndarray:
        """(t, element): known, or found from the layers before."""
        while len(self.values) < len(self.layers):
            self._extend(len(self.values))
        return self.values[place]

    def bend(self, place: int) -> int:
        """A ReLU, or now and then a LeakyReLU."""
        leaky = self.rng.random() < 0.2
        return self.leaky(place, float(self.rng.choice(LEAKS))) if leaky else self.relu(place)

    def _know(self, values: np.ndarray) -> None:
        """The newest layer's values; a reshape of the input before it has none."""
        while len(self.values) < len(self.layers) - 1:
            self.values.append(np.zeros((GRID, 0)))
        self.values.append(values)

    def _extend(self, place: int) -> None:
        layer = self.layers[place]
        if layer.kind in BENDS + SMOOTH:
            self.values.append(_bent(layer, self.layers[layer.inputs[0]], self.values[layer.inputs[0]]))
            return
        own = _sums_alone(self.layers, place)
        found = np.empty((GRID, layer.size))
        for i, one in enumerate(own):
            found[:, i] = float(one.bias)
            for slot, index, weight in one.terms:
                found[:, i] += float(weight) * self.values[layer.inputs[slot]][:, index]
        self.values.append(found)


def _bent(layer: Layer, source: Layer, h: np.ndarray) -> np.ndarray:
    if layer.kind in SMOOTH:
        return np.tanh(h) if layer.kind == "tanh" else 1 / (1 + np.exp(-h))
    if layer.kind == "abs":
        return np.abs(h)
    if layer.kind == "clip":
        return np.clip(h, *(float(end) for end in layer.constants))
    if layer.kind == "peak":
        return np.stack([h[:, window].max(1) for window in windows(layer, source)], 1)
    return np.where(h < 0, float(slope_below(layer)) * h, h)


def _sums_alone(layers: Sequence[Layer], place: int) -> Sums:
    """The sums of one layer, its inputs taken as they are."""
    layer = layers[place]
    inputs = [replace(layers[i], kind="input", inputs=()) for i in layer.inputs]
    (*_, own) = sums_of((*inputs, replace(layer, inputs=tuple(range(len(inputs))))))
    assert own is not None
    return own


def coarse(values: np.ndarray) -> np.ndarray:
    """Numbers of 16 bits, so that times a small integer they are still float32."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * 2**16) / 2**16, exponent)


# --- bodies: from the first layer to a flat last one ---


def dense(grow: Grower, layers: int, width: int) -> int:
    place = grow.bend(grow.enter(grow.rng.normal(size=width)))
    for _ in range(layers - 1):
        place = grow.bend(grow.linear(place, width))
    return place


def convolved(grow: Grower, layers: int, width: int) -> int:
    """Images of two channels, or signals: padded, grouped, normalised, averaged."""
    rng = grow.rng
    plane = bool(rng.integers(2))
    shape = (1, 2, 2, 2) if plane else (1, 2, 4)
    place = grow.reshape(grow.bend(grow.flat(grow.enter(rng.normal(size=8)))), shape)
    for _ in range(min(layers, 3) - 1):
        kernel = (2,) * (len(shape) - 2)
        group = int(rng.choice([1, 2]))
        weight = coarse(rng.normal(size=(2, 2 // group, *kernel)))
        place = grow.conv(place, weight, coarse(rng.normal(size=2)), pad=int(rng.integers(2)), group=group)
        if rng.random() < 0.4:
            place = grow.norm(place, _normal_constants(rng, 2), 2.0**-10)
        place = grow.bend(place)
        if grow.layers[place].shape[-1] >= 2 and rng.random() < 0.4:
            place = grow.pool(place, 2)
        if min(grow.layers[place].shape[2:]) < 2:
            break
    return grow.flat(place)


def _normal_constants(rng: np.random.Generator, channels: int) -> tuple[np.ndarray, ...]:
    """Scale, bias, mean, and a variance that with ε = 2^-10 is a square."""
    roots = rng.integers(1, 8, channels) / 4
    return rng.normal(size=channels), rng.normal(size=channels), rng.normal(size=channels), roots**2 - 2.0**-10


def residual(grow: Grower, layers: int, width: int) -> int:
    place = grow.bend(grow.flat(grow.enter(grow.rng.normal(size=width))))
    for _ in range(max(1, layers - 1)):
        inner = grow.bend(grow.linear(place, width))
        if grow.rng.random() < 0.5:
            inner = grow.linear(inner, width)
        place = grow.add(place, inner, str(grow.rng.choice(["add", "sub"])))
        place = grow.bend(place) if grow.rng.random() < 0.5 else place
    return place


def joined(grow: Grower, layers: int, width: int) -> int:
    """Each layer's result beside what it read."""
    place = grow.bend(grow.flat(grow.enter(grow.rng.normal(size=width))))
    for _ in range(max(1, layers - 1)):
        place = grow.concat(grow.bend(grow.linear(place, max(2, width // 2))), place)
    return place


def doubled(grow: Grower, layers: int, width: int) -> int:
    """Neurons in equal pairs and dead ones, so that many sets of signs are in conflict."""
    half = grow.rng.normal(size=max(2, width // 2))
    place = grow.enter(np.concatenate([half, half]))
    gemm = grow.layers[place]
    bias = gemm.constants[1].copy()
    bias[len(half) :] = bias[: len(half)]
    if grow.rng.random() < 0.5:
        bias[0] = -np.float32(np.abs(gemm.constants[0]).max() * 64 * np.abs(grow.direction).sum())  # never active
    grow.layers[place] = replace(gemm, constants=(gemm.constants[0], bias))
    slopes = np.concatenate([coarse(half), coarse(half)])
    grow.values[place] = np.outer(grow.t, slopes) + bias
    place = grow.relu(place)
    for _ in range(layers - 1):
        place = grow.bend(grow.linear(place, width))
    return grow.flat(place)


BODIES = {"dense": dense, "convolved": convolved, "residual": residual, "joined": joined, "doubled": doubled}


def rescaled(network: Network, rng: np.random.Generator) -> Network:
    """Hidden neurons of Gemm, hinge, Gemm multiplied by up to 1e±12 and divided again: weights of every size."""
    layers = list(network)
    for place, after in _chains(network):
        factor = 2.0 ** rng.integers(-40, 40, layers[place].size)
        weight, bias = (c.astype(np.float64) for c in layers[place].constants)
        layers[place] = with_constants(layers[place], weight * factor[:, None], bias * factor)
        weight, bias = (c.astype(np.float64) for c in layers[after].constants)
        layers[after] = with_constants(layers[after], weight / factor, bias)
    return tuple(layers)


def _chains(network: Network) -> list[tuple[int, int]]:
    """Places of Gemms with a hinge between them that nothing else reads."""
    found = []
    for after, layer in enumerate(network):
        if layer.kind != "gemm" or network[layer.inputs[0]].kind not in HINGES:
            continue
        hinge = layer.inputs[0]
        (place,) = network[hinge].inputs
        alone = all(sum(at in other.inputs for other in network) == 1 for at in (place, hinge))
        if network[place].kind == "gemm" and alone:
            found.append((place, after))
    return found


def specked(network: Network, rng: np.random.Generator) -> Network:
    """Some weights behind the first layer made as small as 1e-40, which float32 holds only as a subnormal."""
    layers = list(network)
    first = next(i for i, layer in enumerate(network) if layer.kind == "gemm")
    for place, layer in enumerate(network):
        if layer.kind == "gemm" and place != first:
            weight, bias = (c.astype(np.float64) for c in layer.constants)
            tiny = np.where(rng.random(weight.shape) < 0.3, 10.0 ** rng.uniform(-40, -10, weight.shape), 1.0)
            layers[place] = with_constants(layer, weight * tiny, bias)
    return tuple(layers)


def with_constants(layer: Layer, weight: np.ndarray, bias: np.ndarray) -> Layer:
    """The layer with another weight and bias, as float32."""
    with np.errstate(under="ignore"):
        constants = (weight.astype(np.float32), bias.astype(np.float32))
    return replace(layer, constants=constants)


# --- tents ---


def tents(
    grow: Grower,
    source: int | None,
    steep: Sequence[float],
    centres: Sequence[float],
    heights: Sequence[float],
    offsets: Sequence[float],
) -> int:
    """One output a tent: offset − height·tent(steep·(t − centre)), a tent of three hinges, 1 at most and 2/steep wide.

    source: a hinge over a Gemm whose first element is t plus a bias, or None for the input itself.
    """
    slopes = np.repeat(coarse(np.asarray(steep, dtype=np.float64)), 3)
    shift, weight = 0.0, np.outer(slopes, grow.direction)
    if source is not None:
        (gemm,) = grow.layers[source].inputs
        shift = float(grow.layers[gemm].constants[1][0])
        weight = np.zeros((len(slopes), grow.size(source)))
        weight[:, 0] = slopes
    bias = -slopes * (np.repeat(centres, 3) + shift) + np.tile([1.0, 0.0, -1.0], len(steep))
    place = grow.relu(grow.gemm(source or 0, weight, bias))
    mix = np.kron(np.diag(heights), [[-1.0, 2.0, -1.0]])
    return grow.gemm(place, mix, np.asarray(offsets))
