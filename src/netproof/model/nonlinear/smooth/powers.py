"""Powers of one variable: its square, square root and reciprocal."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.model.nonlinear.smooth.base import TOO_LARGE, Smooth
from netproof.numerics import HUGE

ROOT: float = HUGE**0.5
STEEP = 2.0**-32  # below this a line on a square root is no steeper than here, where its slope is 2^15


@dataclass(frozen=True)
class Square(Smooth):
    turns = (0.0,)
    least = 0.0
    undefined = TOO_LARGE

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x * x, 2.0 * x

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x * x, 2.0 * x.abs()

    def defined(self, lower: Tensor, upper: Tensor) -> Tensor:
        return (lower >= -ROOT) & (upper <= ROOT)


@dataclass(frozen=True)
class Sqrt(Smooth):
    least = 0.0
    undefined = "its argument may be negative"

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.sqrt(), 0.5 / x.clamp(min=STEEP).sqrt()

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.both(x)

    def exists(self, lower: Tensor, upper: Tensor) -> Tensor:
        return lower >= 0.0

    def carried(self, x: Tensor, e: Tensor) -> Tensor:
        """Bound it by √e where no slope does."""
        return torch.where(x - e > STEEP, super().carried(x, e), e.sqrt())


@dataclass(frozen=True)
class Reciprocal(Smooth):
    undefined = "its argument may be 0"

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        value = x.reciprocal()
        return value, -value * value

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        value = x.reciprocal().abs()
        return value, value * value

    def exists(self, lower: Tensor, upper: Tensor) -> Tensor:
        return (lower > 0.0) | (upper < 0.0)

    def defined(self, lower: Tensor, upper: Tensor) -> Tensor:
        return (lower >= 1.0 / ROOT) | (upper <= -1.0 / ROOT)


@dataclass(frozen=True)
class InverseRoot(Smooth):
    """1 / √x: as one function, it is bounded more tightly than as a reciprocal of a root."""

    least = 0.0
    undefined = "its argument may be 0 or less"

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        value = x.sqrt().reciprocal()
        return value, -0.5 * value / x

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        value = x.sqrt().reciprocal()
        return value, value / x

    def exists(self, lower: Tensor, upper: Tensor) -> Tensor:
        return lower > 0.0

    def defined(self, lower: Tensor, upper: Tensor) -> Tensor:
        return lower >= 1.0 / ROOT


@dataclass(frozen=True)
class Power(Smooth):
    """x to the power of a whole number: at least 3, or at most −2."""

    exponent: int

    @property
    def undefined(self) -> str:  # type: ignore[override]
        return TOO_LARGE if self.exponent > 0 else "its argument may be 0"

    @property
    def turns(self) -> tuple[float, ...]:  # type: ignore[override]
        return (0.0,) if self.exponent > 0 else ()

    bends = (0.0,)

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if self.exponent > 0:
            before = _whole_power(x, self.exponent - 1)
            return before * x, self.exponent * before
        value = _whole_power(x.reciprocal(), -self.exponent)
        return value, self.exponent * value / x

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return |x|ⁿ, n/8 times: of n factors each is rounded once at most, and LIBM is more than 8."""
        value, slope = self.both(x)
        more = 1.0 + abs(self.exponent) / 4.0
        return value.abs() * more, slope.abs() * more

    def exists(self, lower: Tensor, upper: Tensor) -> Tensor:
        return super().exists(lower, upper) if self.exponent > 0 else (lower > 0.0) | (upper < 0.0)

    def defined(self, lower: Tensor, upper: Tensor) -> Tensor:
        most: float = HUGE ** (1.0 / (abs(self.exponent) + 1))
        if self.exponent > 0:
            return (lower >= -most) & (upper <= most)
        return (lower >= 1.0 / most) | (upper <= -1.0 / most)


@dataclass(frozen=True)
class RealPower(Smooth):
    """x to the power of any number but 0 and 1, where x > 0; 0 too, where the power is positive."""

    exponent: float
    least = 0.0

    @property
    def undefined(self) -> str:  # type: ignore[override]
        return "its argument may be negative" if self.exponent > 0 else "its argument may be 0 or less"

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        p = self.exponent
        steady = x.clamp(min=STEEP) if 0.0 < p < 1.0 else x
        return (p * x.log()).exp(), p * ((p - 1.0) * steady.log()).exp()

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return x^p times what rounding of p·log x moves it by."""
        value, slope = self.both(x)
        p, log = self.exponent, x.clamp(min=max(2.0**-1000, torch.finfo(x.dtype).tiny)).log().abs()
        return value * (4.0 + 2.0 * abs(p) * log), slope.abs() * (4.0 + 2.0 * (abs(p) + 1.0) * log)

    def exists(self, lower: Tensor, upper: Tensor) -> Tensor:
        return lower >= 0.0 if self.exponent > 0 else lower > 0.0

    def defined(self, lower: Tensor, upper: Tensor) -> Tensor:
        most: float = HUGE ** (1.0 / (abs(self.exponent) + 1.0))
        return (lower >= (0.0 if self.exponent > 0 else 1.0 / most)) & (upper <= most)

    def carried(self, x: Tensor, e: Tensor) -> Tensor:
        """Bound it by e^p where no slope does: |aᵖ − bᵖ| <= |a − b|ᵖ for p < 1."""
        steady = super().carried(x, e)
        if not 0.0 < self.exponent < 1.0:
            return steady
        return torch.where(x - e > STEEP, steady, e**self.exponent * (1.0 + 1e-9))


def _whole_power(x: Tensor, exponent: int) -> Tensor:
    """Return x·x·…·x by squaring: no entry is rounded more than exponent − 1 times."""
    found, square = None, x
    while exponent:
        if exponent & 1:
            found = square if found is None else found * square
        exponent >>= 1
        if exponent:
            square = square * square
    return torch.ones_like(x) if found is None else found
