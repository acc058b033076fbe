"""BaBSR by LPs, written out slowly: one sub-domain at a time, in numpy and scipy, without a line of netproof.

Bunel et al. (2020), on fully connected ReLU networks. The neurons of a sub-domain are bounded by intervals and by Wong
and Kolter's parallel lines, never worse than its parent's; its bound is the value of the triangle LP. A split is
counted as its two children.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

Layer = tuple[np.ndarray, np.ndarray]  # weight (out, in), bias (out,)
Bounds = list[tuple[np.ndarray, np.ndarray]]  # by hidden layer, lower and upper (n,)

STRONG, LOSES = 1e-3, 1e-4  # of the rule, as it was published


@dataclass(frozen=True)
class PlainBabsr:
    """Minimise the one output of `layers` over a box; ReLUs between the layers."""

    layers: Sequence[Layer]
    low: np.ndarray
    high: np.ndarray

    def branches(self, most: int = 2000) -> int:
        """How many sub-domains besides the root it takes to prove that the output is positive."""
        signs = [np.zeros(len(bias), dtype=int) for _, bias in self.layers[:-1]]
        wide = [(np.full(len(s), -np.inf), np.full(len(s), np.inf)) for s in signs]
        count, waiting = 0, [(signs, self.neurons(signs, wide))]
        if self.least(waiting[0][1]) > 0:
            return 0
        while waiting and count < most:
            signs, bounds = waiting.pop()
            layer, neuron = self.choice(bounds)
            for side in (1, -1):
                child = [s.copy() for s in signs]
                child[layer][neuron] = side
                count += 1
                inside = self.neurons(child, bounds)
                if any((low > high).any() for low, high in inside) or self.least(inside) > 0:
                    continue
                waiting.append((child, inside))
        assert not waiting
        return count

    # --- bounds of neurons ---

    def neurons(self, signs: Sequence[np.ndarray], parent: Bounds) -> Bounds:
        """Bound every hidden neuron where the decided ones have their signs, layer by layer."""
        found: Bounds = []
        for k, (weight, bias) in enumerate(self.layers[:-1]):
            low, high = self.interval(k, found)
            for j in range(len(bias)):
                for sign in (1.0, -1.0):
                    form = sign * weight[j]
                    value, _ = self.backward(form, sign * bias[j], k, found)
                    if sign > 0:
                        low[j] = max(low[j], value)
                    else:
                        high[j] = min(high[j], -value)
            low, high = np.maximum(low, parent[k][0]), np.minimum(high, parent[k][1])
            low = np.where(signs[k] > 0, np.maximum(low, 0.0), low)
            high = np.where(signs[k] < 0, np.minimum(high, 0.0), high)
            found.append((low, high))
        return found

    def interval(self, k: int, found: Bounds) -> tuple[np.ndarray, np.ndarray]:
        low, high = (self.low, self.high) if k == 0 else (np.maximum(side, 0.0) for side in found[k - 1])
        weight, bias = self.layers[k]
        plus, minus = np.maximum(weight, 0), np.minimum(weight, 0)
        return plus @ low + minus @ high + bias, plus @ high + minus @ low + bias

    def backward(self, form: np.ndarray, constant: float, k: int, found: Bounds) -> tuple[float, list[np.ndarray]]:
        """The least value of form·(what layer k reads) + constant, and by layer the coefficients of its ReLUs."""
        after: list[np.ndarray] = []
        for at in reversed(range(k)):
            after.insert(0, form)
            slope, lift = lines(*found[at])
            constant = constant + float(np.minimum(form, 0) @ lift)
            form = form * slope
            weight, bias = self.layers[at]
            constant, form = constant + float(form @ bias), form @ weight
        least = np.maximum(form, 0) @ self.low + np.minimum(form, 0) @ self.high
        return constant + float(least), after

    # --- the LP ---

    def least(self, bounds: Bounds) -> float:
        """The value of the triangle LP over x and, for each hidden layer, h and z; inf where it is infeasible."""
        sizes = [len(self.low), *(n for _, bias in self.layers[:-1] for n in (len(bias), len(bias)))]
        start = np.concatenate([[0], np.cumsum(sizes)])
        total, box = int(start[-1]), [*zip(self.low, self.high, strict=True)]
        equal, right, under, room = [], [], [], []
        read = 0  # the columns that the layer reads
        for k, (weight, bias) in enumerate(self.layers[:-1]):
            h, z = start[1 + 2 * k], start[2 + 2 * k]
            low, high = bounds[k]
            for j in range(len(bias)):
                row = np.zeros(total)
                row[start[read] : start[read] + weight.shape[1]], row[h + j] = weight[j], -1.0
                equal.append(row)
                right.append(-bias[j])
                one = np.zeros(total)
                one[z + j], one[h + j] = 1.0, -1.0
                if low[j] >= 0:
                    equal.append(one)
                    right.append(0.0)
                elif high[j] > 0:
                    chord = np.zeros(total)
                    chord[z + j], chord[h + j] = 1.0, -high[j] / (high[j] - low[j])
                    under += [-one, chord]
                    room += [0.0, -high[j] * low[j] / (high[j] - low[j])]
            box += [*zip(low, high, strict=True)]
            box += [(max(lo, 0.0), max(hi, 0.0)) for lo, hi in zip(low, high, strict=True)]
            read = 2 + 2 * k
        weight, bias = self.layers[-1]
        cost = np.zeros(total)
        cost[start[read] : start[read] + weight.shape[1]] = weight[0]
        answer = linprog(cost, under or None, room or None, equal, right, box, method="highs")
        return np.inf if answer.status == 2 else float(answer.fun + bias[0])

    # --- the rule ---

    def choice(self, bounds: Bounds) -> tuple[int, int]:
        """The neuron to split: layer and place."""
        weight, bias = self.layers[-1]
        _, after = self.backward(weight[0], float(bias[0]), len(self.layers) - 1, bounds)
        score, lost = [], []
        for k, coef in enumerate(after):
            slope, lift = lines(*bounds[k])
            through = coef * self.layers[k][1]
            mine = -np.minimum(coef, 0) * lift
            change = np.maximum(through * (slope - 1), through * slope) - mine
            unstable = (bounds[k][0] < 0) & (bounds[k][1] > 0)
            score.append(np.where(unstable, np.abs(change), -np.inf))
            lost.append(np.where(unstable, mine, -np.inf))
        best = max(range(len(score)), key=lambda k: score[k].max())
        if best > 0 and score[best].max() > STRONG:
            return best, int(score[best].argmax())
        last = max((k for k in range(len(lost)) if lost[k].max() > LOSES), default=None)
        if last is not None:
            return last, int(lost[last].argmax())
        last = max(k for k in range(len(lost)) if np.isfinite(lost[k]).any())  # any: here the widest
        return last, int(np.where(np.isfinite(lost[last]), bounds[last][1] - bounds[last][0], -np.inf).argmax())


def lines(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The slope of both lines of each ReLU, and the intercept of the upper one."""
    unstable = (low < 0) & (high > 0)
    slope = np.where(unstable, high / np.where(unstable, high - low, 1.0), (low >= 0).astype(float))
    return slope, np.where(unstable, -slope * low, 0.0)
