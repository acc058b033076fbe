"""Cutting off what no violation can be in: a box of the input is made smaller, and nothing is lost.

Every row r has a linear form below it on the box: a·x + C <= r(x), from the pass back of `bound` stopped before the
input, C = c − 2E rounded down. Where the rows are violated, r(x) <= 0, so for each input i

    a_i x_i <= −C − Σ_{k≠i} a_k x_k <= −C − Σ_{k≠i} min(a_k l_k, a_k u_k)

which bounds x_i from one side. A second sweep over the rows uses the ends that the first one moved; the forms hold on
the smaller box too.

Charge: the right-hand side is a sum of n + 1 numbers, one of which is added and taken away again; it is off by less
than 8 (n + 8) u (Σ|min| + |C|), which is added. The quotient is moved two units outward. An end is only ever moved
inward, and where l > u in the end the box has no violation in it.
"""

from __future__ import annotations

import numpy as np

from npcheck.bound import UNDERFLOW, UNIT, Form, Ranges, carry_back
from npcheck.network import Network
from npcheck.ranges import Lines
from npcheck.statement import Array, Rows

SWEEPS = 2


def clipped(network: Network, rows: Rows, ranges: Ranges) -> tuple[Array, Array]:
    """Return smaller boxes (D, n) for sub-domains with these ranges."""
    lower, upper = ranges.lower[0].copy(), ranges.upper[0].copy()
    forms = [_below(network, rows, row, ranges) for row in range(len(rows.right))]
    for _ in range(SWEEPS):
        for slopes, constant in forms:
            _cut(lower, upper, slopes, constant)
    return lower, upper


def _below(network: Network, rows: Rows, row: int, ranges: Ranges) -> tuple[Array, Array]:
    """Return a (D, n) and C (D,) of one row."""
    weights = np.zeros((len(ranges.lower[0]), len(rows.right)))
    weights[:, row] = 1.0
    form = Form.of_rows(rows, weights, len(network.nodes) - 1, ranges)
    carry_back(network, form, ranges, Lines({}))
    constant = np.nextafter(form.constant - 2.0 * form.error - UNDERFLOW, -np.inf)
    return form.coefficients.get(0, np.zeros_like(ranges.lower[0])), constant


def _cut(lower: Array, upper: Array, slopes: Array, constant: Array) -> None:
    """Move ends of boxes by one row, in place; what is not a number moves nothing."""
    least = np.minimum(slopes * lower, slopes * upper)
    sizes = np.abs(least).sum(1) + np.abs(constant)
    away = 8.0 * (least.shape[1] + 8) * UNIT * sizes + UNDERFLOW
    room = -constant[:, None] - (least.sum(1, keepdims=True) - least) + away[:, None]
    end = room / np.where(slopes == 0.0, 1.0, slopes)
    above = np.nextafter(np.nextafter(end, np.inf), np.inf)
    below = np.nextafter(np.nextafter(end, -np.inf), -np.inf)
    lower[:] = np.where((slopes < 0.0) & (below > lower), below, lower)
    upper[:] = np.where((slopes > 0.0) & (above < upper), above, upper)
