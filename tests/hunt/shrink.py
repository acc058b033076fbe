"""A smaller question with the same fault: fewer disjuncts, rows, neurons, layers and inputs, as long as it fails."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hunt.judge import Asked, Finding, Run, judge
from hunt.network import HINGES, Layer, Network
from hunt.oracle import Oracle
from hunt.question import Disjunct, InputSet, Question


@dataclass(frozen=True, eq=False)
class Small:
    question: Question
    oracle: Oracle
    finding: Finding


def shrink(question: Question, run: Run, fault: str, seconds: float) -> Small:
    """Greedy: the first smaller question with the same fault is taken, until none has it or the time is up."""
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        best = _ask(question, run, Path(folder))
        while time.monotonic() < until:
            for candidate in smaller(best.question):
                found = _ask(candidate, run, Path(folder))
                if found.finding.fault == fault:
                    best = found
                    break
                if time.monotonic() >= until:
                    return best
            else:
                return best
    return best


def _ask(question: Question, run: Run, folder: Path) -> Small:
    oracle = Oracle(question.network, question.direction)
    return Small(question, oracle, judge(Asked(question, oracle, folder), run))


def smaller(question: Question) -> Iterator[Question]:
    """Questions with one thing less, the largest things first."""
    disjuncts, network = question.disjuncts, question.network
    if len(disjuncts) > 1:
        for i in range(len(disjuncts)):
            yield replace(question, disjuncts=disjuncts[:i] + disjuncts[i + 1 :])
    for place in range(len(network) - 1, 0, -1):
        short = without_layer(network, place)
        if short is not None:
            yield replace(question, network=short)
    for i, disjunct in enumerate(disjuncts):
        for j in range(len(disjunct.rows) if len(disjunct.rows) > 1 else 0):
            less = replace(disjunct, rows=disjunct.rows[:j] + disjunct.rows[j + 1 :])
            yield replace(question, disjuncts=(*disjuncts[:i], less, *disjuncts[i + 1 :]))
    for place, layer in enumerate(network):
        for neuron in range(layer.size if layer.kind == "gemm" else 0):
            thin = without_neuron(network, place, neuron)
            if thin is not None:
                yield replace(question, network=thin)
    for i in range(len(question.direction)):
        narrow = without_input(question, i)
        if narrow is not None:
            yield narrow


def without_layer(network: Network, place: int) -> Network | None:
    """What reads the layer reads its input instead, where the shapes allow that; None otherwise."""
    layer = network[place]
    if layer.kind == "input" or (place == len(network) - 1 and layer.kind not in HINGES):
        return None
    source = layer.inputs[0]
    if network[source].shape != layer.shape or source == 0:
        return None
    readers = [replace(other, inputs=tuple(source if i == place else i for i in other.inputs)) for other in network]
    return _pruned((*readers[:place], *(_moved(other, place) for other in readers[place + 1 :])))


def _moved(layer: Layer, gone: int) -> Layer:
    return replace(layer, inputs=tuple(i - (i > gone) for i in layer.inputs))


def _pruned(network: Network) -> Network:
    """Without layers that nothing reads."""
    for place in range(len(network) - 2, 0, -1):
        if not any(place in layer.inputs for layer in network):
            return _pruned((*network[:place], *(_moved(layer, place) for layer in network[place + 1 :])))
    return network


def without_neuron(network: Network, place: int, neuron: int) -> Network | None:
    """A Gemm one element narrower, where only hinges and then Gemms read it."""
    if network[place].size == 1:
        return None
    layers = list(network)
    layers[place] = replace(
        layers[place],
        shape=(1, layers[place].size - 1),
        constants=tuple(np.delete(c, neuron, axis=0) for c in layers[place].constants),
    )
    return tuple(layers) if _narrow_readers(layers, place, neuron) else None


def _narrow_readers(layers: list[Layer], place: int, neuron: int) -> bool:
    """Follow the missing element; False where it is read by something else, or is an output."""
    readers = [i for i, layer in enumerate(layers) if place in layer.inputs]
    for i in readers:
        layer = layers[i]
        if layer.kind in HINGES:
            layers[i] = replace(layer, shape=layers[place].shape)
            if not _narrow_readers(layers, i, neuron):
                return False
        elif layer.kind == "gemm":
            weight, bias = layer.constants
            layers[i] = replace(layer, constants=(np.delete(weight, neuron, axis=1), bias))
        else:
            return False
    return bool(readers)


def without_input(question: Question, index: int) -> Question | None:
    """One coordinate less, where the input is flat and Gemms read it; its part of t is lost.

    Not of an ℓ2 ball: the oracle asks for directions of rational length.
    """
    network, count = list(question.network), len(question.direction)
    if any(d.inputs.p == 2 for d in question.disjuncts):
        return None
    readers = [i for i, layer in enumerate(network) if 0 in layer.inputs]
    if count == 1 or len(network[0].shape) != 2 or any(network[i].kind != "gemm" for i in readers):
        return None
    network[0] = replace(network[0], shape=(1, count - 1))
    for i in readers:
        weight, bias = network[i].constants
        network[i] = replace(network[i], constants=(np.delete(weight, index, axis=1), bias))

    def cut(side: tuple) -> tuple:
        return side[:index] + side[index + 1 :]

    def narrowed(inputs: InputSet) -> InputSet:
        centre = None if inputs.centre is None else cut(inputs.centre)
        return replace(inputs, lower=cut(inputs.lower), upper=cut(inputs.upper), centre=centre)

    disjuncts = tuple(Disjunct(narrowed(d.inputs), d.rows) for d in question.disjuncts)
    return Question(tuple(network), cut(question.direction), disjuncts)
