"""The least time that a sub-domain can take on this machine: its flops and bytes, counted, over the machine's peaks.

Counted on the condensed network, for the schedule's full number of steps: each step is a bound (`backward`) and its
gradient (`forward`) in float32 and an update of the optimiser; then each of the two children has its share of the
probes that chose the neuron, and the bound once more in float64. Flops are those of the matrix products and of the
trunk's convolutions. Bytes: whatever differs from one sub-domain to the next is read once and written once between two
matrix products, as perfectly fused kernels would; the matrices are read once a batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from netproof.bounds.condensed.network import Condensed
from netproof.numerics import use_strict_float32

# Numbers moved for each packed neuron:
BACKWARD = 8  # α, β, the upper line's two and the sign are read; p is written and read; a is written
FORWARD = 7  # a, α and the upper line's two are read; h is written; z is written and read
UPDATE = 18  # α, β and the two moments of each, read and written; their range, a and h read; the best ones written
RECORD = 28  # bytes: signs, bounds, slopes and multipliers of the sub-domain, read and written once
SINGLE, DOUBLE = 4, 8  # bytes a number
TRIES = 5


@dataclass(frozen=True)
class Work:
    """Of one sub-domain."""

    single: float  # flops in float32
    double: float  # flops in float64
    bytes: float

    def __add__(self, other: Work) -> Work:
        return Work(self.single + other.single, self.double + other.double, self.bytes + other.bytes)

    def __mul__(self, times: float) -> Work:
        return Work(self.single * times, self.double * times, self.bytes * times)


@dataclass(frozen=True)
class Peak:
    """What the machine reaches, measured here and now."""

    single: float  # flop/s
    double: float
    bytes: float  # byte/s, read and written

    def seconds(self, work: Work) -> tuple[float, str]:
        """The least time, and what sets it."""
        computing = work.single / self.single + work.double / self.double
        moving = work.bytes / self.bytes
        return (computing, "flops") if computing >= moving else (moving, "bytes")

    def __str__(self) -> str:
        flops = f"float32 {self.single / 1e12:.3g} TFLOP/s, float64 {self.double / 1e12:.3g} TFLOP/s"
        return f"{flops}, copy {self.bytes / 1e9:.4g} GB/s"


def work_of(net: Condensed, steps: int, probes: int, batch: int) -> Work:
    """Of one sub-domain of a batch; net: the copy to search with."""
    once = _backward(net, batch)
    step = once + _forward(net, batch) + Work(0.0, 0.0, SINGLE * UPDATE * net.count)
    tried = once * (probes if probes > 1 else 0)  # two sides a neuron, two children to share them
    proof = Work(0.0, once.single, once.bytes * DOUBLE / SINGLE)
    return step * steps + once + tried + proof + Work(0.0, 0.0, RECORD * net.count)


def _backward(net: Condensed, batch: int) -> Work:
    count, base, inputs = net.count, net.base, net.region.centre.numel()
    between = sum(layer.count * (count - layer.packed.stop) for layer in net.layers)
    entries = between + (count - net.direct) * base
    coef = torch.zeros(1, net.trunk.count, device=net.matrix.device)
    flops = 2 * entries + _counted(lambda: net.trunk.pull(coef))
    moved = (base + count) + BACKWARD * count + 2 * base + inputs + net.matrix.numel() / batch
    return Work(flops, 0.0, SINGLE * moved)


def _forward(net: Condensed, batch: int) -> Work:
    base, inputs = net.base, net.region.centre
    entries = sum(layer.count * (base + layer.start) for layer in net.layers if layer.packed.stop > net.direct)
    flops = 2 * entries + _counted(lambda: net.trunk.push(inputs[None]))
    moved = inputs.numel() + 2 * base + FORWARD * net.count + net.matrix.numel() / batch
    return Work(flops, 0.0, SINGLE * moved)


def _counted(call: Callable[[], torch.Tensor]) -> int:
    """Flops of the matrix products and convolutions that a call makes."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        call()
    return int(counter.get_total_flops())


def measured_peak(device: torch.device) -> Peak:
    """The best of a few tries: a large matrix product in each precision, TF32 off, and a large copy."""
    use_strict_float32()
    gpu = device.type == "cuda"
    here = torch.zeros((1 << 30) if gpu else (1 << 28), dtype=torch.uint8, device=device)
    there = torch.empty_like(here)
    return Peak(
        _flops(8192 if gpu else 1024, torch.float32, device),
        _flops(4096 if gpu else 1024, torch.float64, device),
        2 * here.numel() / _best(lambda: there.copy_(here), device),
    )


def _flops(n: int, dtype: torch.dtype, device: torch.device) -> float:
    """flop/s of a product of two (n, n), with random entries: a chip runs cooler, so faster, on zeros."""
    a, b = (torch.rand(n, n, dtype=dtype, device=device) for _ in range(2))
    return 2 * n**3 / _best(lambda: torch.mm(a, b), device)


def _best(call: Callable[[], object], device: torch.device) -> float:
    call()  # what is done once: handles, kernels, pages
    return min(timed(call, device) for _ in range(TRIES))


def timed(call: Callable[[], object], device: torch.device) -> float:
    """Seconds until the device is done with it."""
    synchronise(device)
    began = time.perf_counter()
    call()
    synchronise(device)
    return time.perf_counter() - began


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def describe(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU, {torch.get_num_threads()} thread{'s' * (torch.get_num_threads() > 1)}"
