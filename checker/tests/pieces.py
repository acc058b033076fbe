"""Pieces of work that other processes are sent by tests: a module that is imported quickly."""

from __future__ import annotations

import os
import time
from typing import NoReturn

import numpy as np

from npcheck.bound import Ranges
from npcheck.network import Network


def which(number: int, network: Network, known: Ranges) -> np.ndarray:
    return np.array([number, known.lower[0][0]])


def late(number: int, network: Network, known: Ranges) -> np.ndarray:
    time.sleep(0.01 * (number % 3))
    return np.array([number])


def long(values: np.ndarray, network: Network, known: Ranges) -> np.ndarray:
    return values


def dies(network: Network, known: Ranges) -> NoReturn:
    os._exit(9)


def fails(network: Network, known: Ranges) -> NoReturn:
    raise ValueError("a strange fault")


def has_no_memory(network: Network, known: Ranges) -> NoReturn:
    raise MemoryError


class Bound:
    """A piece with arguments: functools.partial, spelled out."""

    def __init__(self, function: object, number: int) -> None:
        self.function, self.number = function, number

    def __call__(self, network: Network, known: Ranges) -> np.ndarray:
        return self.function(self.number, network, known)  # type: ignore[operator, no-any-return]
