"""Questions about what a last Sigmoid, Tanh, Softmax or ArgMax makes of a network whose logits are known exactly.

Sigmoids of large logits are all 1 in float32; their order in real numbers is that of the logits. What an ArgMax gives
is a place: a question about it is one about which logit is the largest, and its margin is in units of places.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import netproof
from hunt import generate, sets
from hunt.judge import Asked, Finding, Run, judge
from hunt.nets import with_constants
from hunt.network import Network, to_onnx
from hunt.oracle import Oracle
from hunt.question import Disjunct, InputSet, Question, Row

LARGE = 60.0  # of a logit: sigmoids are 1 in float32 from 17 on


def with_last(network: Network, op: str, **attributes: int) -> onnx.ModelProto:
    """The model with one more operator, whose output is named v."""
    model = to_onnx(network)
    (logits,) = model.graph.output
    place = op == "ArgMax"
    model.graph.node.append(helper.make_node(op, [logits.name], ["v"], **attributes))
    shape = [1] if place and not attributes.get("keepdims", 1) else [1, 1 if place else network[-1].size]
    model.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("v", TensorProto.INT64 if place else TensorProto.FLOAT, shape)
    )
    onnx.checker.check_model(model)
    return model


def several(rng: np.random.Generator, inputs: list[InputSet], k: tuple[int, ...], *, last_bend: float = 0.0) -> Network:
    """A network with outputs to compare."""
    while True:
        network = generate.grown(rng, inputs, k, last_bend=last_bend)
        if network[-1].size > 1:
            return network


def scaled(rng: np.random.Generator, network: Network, oracle: Oracle, inputs: InputSet) -> Network:
    """The network with its last Gemm multiplied, so that its logits reach about LARGE or a tenth of it."""
    reaches = oracle.ranges(inputs)
    most = max(max(abs(float(side)) for side in ends) for ends in reaches) or 1.0
    factor = LARGE * 10 ** rng.uniform(-1, 0) / most
    weight, bias = (c.astype(np.float64) * factor for c in network[-1].constants)
    return (*network[:-1], with_constants(network[-1], weight, bias))


class Behind(Asked):
    """A question that compares outputs behind a last operator that keeps their order: its rows are those of logits."""

    def __init__(self, question: Question, oracle: Oracle, folder: Path, op: str) -> None:
        super().__init__(question, oracle, folder)
        self._proto = with_last(question.network, op)
        onnx.save(self._proto, str(self.model))


def saturated(rng: np.random.Generator, folder: Path, runs: list[Run]) -> list[tuple[Run, Finding]]:
    """Ask which of two outputs is larger; margins from 1e-6 of the logits on, on either side."""
    k = sets.direction(rng, int(rng.integers(1, 4)))
    inputs = sets.box(rng, len(k), str(rng.choice(["plain", "decimal", "point"])))
    network = several(rng, [inputs], k)
    network = scaled(rng, network, Oracle(network, k), inputs)
    i, j = rng.choice(network[-1].size, 2, replace=False).tolist()
    row = Row({i: Fraction(1), j: Fraction(-1)}, Fraction(0), bool(rng.random() < 0.3))
    shift = float(10 ** rng.uniform(-5, 1.5)) * (1 if rng.random() < 0.5 else -1)
    least = float(Oracle(network, k).answer(Disjunct(inputs, (row,))).least)
    weight, bias = network[-1].constants
    bias = bias.astype(np.float64)
    bias[i] += shift - least
    network = (*network[:-1], with_constants(network[-1], weight, bias))
    oracle = Oracle(network, k)
    asked = Behind(Question(network, k, (Disjunct(inputs, (row,)),)), oracle, folder, str(rng.choice(ORDERED)))
    return [(run, _of_float32(asked, run)) for run in runs]


ORDERED = ("Sigmoid", "Tanh", "Softmax")


def _of_float32(asked: Behind, run: Run) -> Finding:
    """Judge as everywhere; what float32 alone violates has a value of outputs, which no logit is compared with."""
    found = judge(asked, run)
    ties = found.status == "sat" and found.fault == "wrong upper bound"
    return replace(found, fault="", detail="") if ties else found


# --- places ---


def places(rng: np.random.Generator, folder: Path, runs: list[Run]) -> list[tuple[Run, Finding]]:
    """Ask about the place of the largest of several logits, with any number on the other side."""
    k = sets.direction(rng, int(rng.integers(1, 4)))
    inputs = sets.box(rng, len(k), str(rng.choice(["plain", "decimal", "narrow", "point"])))
    network = several(rng, [inputs], k, last_bend=0.1)
    asked = Places(rng, Oracle(network, k), inputs, folder)
    return [(run, asked.judge(run)) for run in runs]


class Places:
    """One question about a last ArgMax, with the places that it has on the set, by exact arithmetic."""

    def __init__(self, rng: np.random.Generator, oracle: Oracle, inputs: InputSet, folder: Path) -> None:
        self._oracle, self._inputs = oracle, inputs
        self._last = bool(rng.random() < 0.3)
        attributes = {"axis": 1, "keepdims": int(rng.integers(2)), "select_last_index": int(self._last)}
        self._proto = with_last(oracle.network, "ArgMax", **attributes)
        self._model, self._spec = folder / "model.onnx", folder / "spec.vnnlib"
        onnx.save(self._proto, str(self._model))
        size = oracle.network[-1].size
        self._rows = tuple(
            Row(
                {0: Fraction(str(rng.choice(["-2", "-1", "1", "1/3", "10"])))},
                Fraction(int(rng.integers(-5, 4 * size)), 4),
                bool(rng.random() < 0.3),
            )
            for _ in range(int(rng.choice([1, 2])))
        )
        text = Question(oracle.network, oracle.direction, (Disjunct(inputs, self._rows),)).text()
        declared = "".join(f"(declare-const Y_{i} Real)\n" for i in range(1, size))
        for line in declared.splitlines():
            text = text.replace(line + "\n", "")  # there is one output
        self._spec.write_text(text)
        self._reached = [place for place in range(size) if self._is_reached(place)]

    def _is_reached(self, place: int) -> bool:
        rows = tuple(
            Row({j: Fraction(1), place: Fraction(-1)}, Fraction(0), strict=(j > place) == self._last)
            for j in range(self._oracle.network[-1].size)
            if j != place
        )
        return self._oracle.answer(Disjunct(self._inputs, rows)).violated

    def _largest_row(self, place: int) -> Fraction:
        return max(row.coefs[0] * place - row.rhs for row in self._rows)

    def _violates(self, place: int) -> bool:
        return all(row.holds([], [Fraction(place)]) for row in self._rows)

    def judge(self, run: Run) -> Finding:
        verdict = netproof.verify(
            str(self._model),
            str(self._spec),
            method=run.method,
            attack=run.attack,
            options=dict(run.options),
            timeout=run.timeout,
            seed=run.seed,
            device="cpu",
            threads=1,
        )
        fault, detail = self._wrong(verdict)
        return Finding(str(verdict.status), fault, detail)

    def _wrong(self, verdict: netproof.Verdict) -> tuple[str, str]:
        said = f"{verdict.status}, {verdict.reason}, bounds {verdict.lower_bound} to {verdict.upper_bound}"
        detail = f"{said}; places {self._reached}, rows {self._rows}"
        if "contradiction" in verdict.reason:
            return "contradiction", detail
        violating = [place for place in self._reached if self._violates(place)]
        if verdict.status == "unsat" and violating:
            return "wrong unsat", detail
        least = min(map(self._largest_row, self._reached))
        if verdict.lower_bound is not None and Fraction(verdict.lower_bound) > least:
            return "wrong margin", detail
        return ("", "") if verdict.witness is None else self._wrong_witness(verdict, detail)

    def _wrong_witness(self, verdict: netproof.Verdict, detail: str) -> tuple[str, str]:
        assert verdict.witness is not None
        session = onnxruntime.InferenceSession(self._proto.SerializeToString(), providers=["CPUExecutionProvider"])
        (replayed,) = session.run(None, {"v0": verdict.witness.input})
        x = [Fraction(float(v)) for v in verdict.witness.input.reshape(-1)]
        sides = zip(self._inputs.lower, x, self._inputs.upper, strict=True)
        inside = all(lo <= v <= hi for lo, v, hi in sides) or bool(verdict.witness.note)
        if not inside or not self._violates(int(replayed.reshape(-1)[0])):
            return "wrong witness", detail
        if verdict.arithmetic == "real":
            logits = self._oracle.outputs(x)
            largest = [i for i, v in enumerate(logits) if v == max(logits)]
            place = largest[-1 if self._last else 0]
            if not self._violates(place):
                return "wrong witness", f"in real arithmetic the place is {place}; {detail}"
            off = Fraction(verdict.upper_bound or 0) - self._largest_row(place)
            if verdict.upper_bound is None or not 0 <= off <= Fraction(1, 2**45):
                return "wrong value", detail
        return "", ""
