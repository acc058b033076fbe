"""The last resort of a leaf on which nothing is left to split: an LP, whose duals the certificate stores.

With every ReLU on one side the rows and the neurons are linear in the input. A violation has r_j(x) <= 0 for all rows
and −s_i h_i(x) <= 0 for all splits. The least t that all of these are at most, for some x of the box, is above 0 where
there is none; its duals are the weights λ and the multipliers β. The checker values them; the solver is not believed.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from npcheck.bound import Form, Ranges, carry_back
from npcheck.network import Network
from npcheck.ranges import Lines, Signs
from npcheck.statement import Array, Rows
from npcheck.tree import Packed


@dataclass(frozen=True)
class Duals:
    """Weights of rows, and multipliers of the splits of packed neurons."""

    weights: Array  # (row,)
    multipliers: Array  # (packed,)


def duals(network: Network, packed: Packed, ranges: Ranges, rows: Rows, signs: Signs) -> Duals | None:
    """Solve the LP of one leaf (ranges of it alone, with its splits); None where the solver finds no optimum."""
    count = len(rows.right)
    weights = np.eye(count)
    forms = [_linear(network, Form.of_rows(rows, weights, len(network.nodes) - 1, ranges), ranges)]
    for node, places in zip(packed.nodes, packed.neurons, strict=True):
        if len(places):
            forms.append(_linear(network, Form.of_neurons(node, network.nodes[node].size, places, 1.0), ranges))
    slopes, constants = (np.concatenate(column) for column in zip(*forms, strict=True))
    sides = np.concatenate([np.ones(count), -signs.astype(np.float64)])  # all of these forms are <= 0 in a violation
    slopes, constants = sides[:, None] * slopes, sides * constants
    sizes = np.abs(slopes).max(1, initial=0.0) + np.abs(constants) + 1e-30
    matrix = np.hstack([slopes / sizes[:, None], -np.ones((len(sizes), 1))])
    low, high = ranges.lower[0][0], ranges.upper[0][0]
    dual = _solve(matrix, -constants / sizes, np.append(low, -np.inf), np.append(high, np.inf))
    if dual is None:
        return None
    dual = np.maximum(-dual, 0.0) / sizes
    total = dual[:count].sum() or dual.sum() or 1.0
    return Duals(dual[:count] / total, dual[count:] / total)


def _linear(network: Network, form: Form, ranges: Ranges) -> tuple[Array, Array]:
    """Return forms as linear functions of the input: slopes (B, n), constants (B,)."""
    carry_back(network, form, ranges, Lines({}))
    nothing = np.zeros((len(form.constant), network.nodes[0].size))
    return form.coefficients.get(0, nothing), form.constant


def _solve(matrix: Array, right: Array, low: Array, high: Array) -> Array | None:
    """Minimise the last variable; return the duals of the rows, each <= 0."""
    solver = highspy.Highs()
    solver.silent()
    columns = matrix.shape[1]
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = columns, len(right)
    program.col_cost_ = np.append(np.zeros(columns - 1), 1.0)
    program.col_lower_, program.col_upper_ = low, high
    program.row_lower_, program.row_upper_ = np.full(len(right), -np.inf), right
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.arange(len(right) + 1) * columns
    program.a_matrix_.index_ = np.tile(np.arange(columns), len(right))
    program.a_matrix_.value_ = matrix.reshape(-1)
    solver.passModel(program)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return np.asarray(solver.getSolution().row_dual)
