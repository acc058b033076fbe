"""The figures of docs/methods.md, computed by netproof and drawn when the site is built, light and dark."""

from __future__ import annotations

import functools
import io
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

import netproof
from netproof.demo import copy_data
from netproof.search import rounds
from sitegen.look import LOOKS, Look

Box = tuple[np.ndarray, np.ndarray, float]  # lower and upper corner (2,), and the bound there


def settings(look: Look) -> dict[str, Any]:
    """Return matplotlib's settings: transparent paper, one colour of ink, text as text."""
    ink = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor"), look.ink)
    clear = {"figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none"}
    free = {"axes.spines.top": False, "axes.spines.right": False}
    return {**ink, **clear, **free, "svg.fonttype": "none", "svg.hashsalt": "netproof", "font.size": 11}


def relu(look: Look) -> Figure:
    """Draw a ReLU between its lines: unstable, with three lower slopes, and after a split."""
    figure = Figure(figsize=(8, 2.7), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    low, high = -1.5, 2.0
    h = np.linspace(low, high, 200)
    for at, (title, ends) in enumerate(
        (("before a split", (low, high)), ("h ≤ 0", (low, 0.0)), ("h ≥ 0", (0.0, high)))
    ):
        part = h[(h >= ends[0]) & (h <= ends[1])]
        if at == 0:
            chord = high * (part - low) / (high - low)
            axes[at].fill_between(part, np.maximum(part, 0), chord, color=look.cold, alpha=0.18, linewidth=0)
            axes[at].plot(part, chord, color=look.cold, label="upper line")
            for slope in (0.0, 0.4, 1.0):
                axes[at].plot(part, slope * part, color=look.bad, linewidth=1.2, linestyle="--")
            axes[at].annotate("lower lines α·h:\nα = 0, 0.4, 1", (0.1, -1.4), fontsize=9, color=look.bad)
        axes[at].plot(part, np.maximum(part, 0), color=look.ink, linewidth=2.4)
        axes[at].set(title=title, xlabel="h, what the neuron reads", xlim=(low - 0.1, high + 0.1), ylim=(-1.6, 2.2))
        axes[at].axhline(0, color=look.faint, linewidth=0.8, zorder=0)
        axes[at].axvline(0, color=look.faint, linewidth=0.8, zorder=0)
    axes[0].set_ylabel("relu(h)")
    return figure


def toy() -> tuple[torch.nn.Module, Any]:
    """Return a network of two inputs that is above 0 on the box [−1, 1]², but not by much, and its values there."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(
        torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
    )
    side = torch.linspace(-1, 1, 201)
    grid = torch.stack(torch.meshgrid(side, side, indexing="xy"), -1).reshape(-1, 2)
    with torch.no_grad():
        model[4].weight *= 8
        values = model(grid)
        model[4].bias -= values.min() - 0.02 * (values.max() - values.min())
        values = model(grid).reshape(201, 201).numpy()
    return model, values


def boxes(look: Look) -> Figure:
    """Draw branch and bound on boxes of two inputs: which are proved after some splits, and what is left."""
    values, levels = _split()
    figure = Figure(figsize=(8, 2.5), layout="constrained")
    side = np.linspace(-1, 1, 201)
    for ax, (done, open_boxes) in zip(figure.subplots(1, 4), levels, strict=True):
        ax.contour(side, side, values, levels=8, colors=look.faint, linewidths=0.7)
        for low, high, _ in done:
            ax.add_patch(Rectangle(low, *(high - low), facecolor=look.good, alpha=0.35, edgecolor=look.good))
        for low, high, _ in open_boxes:
            ax.add_patch(Rectangle(low, *(high - low), facecolor=look.bad, alpha=0.35, edgecolor=look.bad))
        worst = min((bound for *_, bound in open_boxes), default=None)
        ax.set(xticks=[], yticks=[], xlim=(-1.02, 1.02), ylim=(-1.02, 1.02), aspect="equal")
        ax.set_title(f"{len(done)} proved, {len(open_boxes)} open", fontsize=10)
        ax.set_xlabel("all proved" if worst is None else f"worst bound {worst:.2f}", fontsize=10)
    return figure


@functools.cache
def _split() -> tuple[np.ndarray, list[tuple[list[Box], list[Box]]]]:
    """Split until all is proved: values on a grid, and what is proved and open before and after each two splits."""
    model, values = toy()
    network = netproof.load_network(model, example_shape=(1, 2))
    start = np.array([-1.0, -1.0]), np.array([1.0, 1.0])
    done: list[Box] = []
    left = [(*start, _least(network, *start))]
    levels = [(done, left)]
    for step in range(6):
        parts = [half for low, high, _ in left for half in _halves(low, high)]
        bounded = [(low, high, _least(network, low, high)) for low, high in parts]
        done = done + [box for box in bounded if box[2] > 0]
        left = [box for box in bounded if box[2] <= 0]
        if step % 2:
            levels.append((done, left))
    return values, levels


def _least(network: Any, low: np.ndarray, high: np.ndarray) -> float:
    found = netproof.bounds(network, netproof.box(low[None], high[None]), method="crown", threads=1)
    return float(np.asarray(found.lower).ravel()[0])


def _halves(low: np.ndarray, high: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    axis = int(np.argmax(high - low))
    middle = (low[axis] + high[axis]) / 2
    top, bottom = low.copy(), high.copy()
    top[axis] = bottom[axis] = middle
    return [(low, bottom), (top, high)]


def bars(look: Look) -> Figure:
    """Draw the outputs of a bundled network between bounds of every kind."""
    methods = {"ibp": look.faint, "crown": look.bad, "alpha": look.cold, "exact": look.good}
    words = {"ibp": "intervals", "crown": "CROWN", "alpha": "optimised slopes", "exact": "the truth"}
    figure = Figure(figsize=(8, 3.4), layout="constrained")
    ax = figure.add_subplot()
    for at, (method, colour) in enumerate(methods.items()):
        low, high = _bounded(method)
        place = np.arange(len(low)) + 0.2 * (at - 1.5)
        ax.bar(place, high - low, bottom=low, width=0.17, color=colour, label=words[method])
    ax.use_sticky_edges = False  # else the lowest bar ends on the frame, as if it went on below
    ax.set(xticks=range(len(low)), xlabel="output", ylabel="bounds over the whole input set")
    ax.legend(frameon=False, ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.14), fontsize=10)
    return figure


@functools.cache
def _bounded(method: str) -> tuple[np.ndarray, np.ndarray]:
    """Bound the outputs (10,) of a bundled network."""
    with _demo("fc-3-holds") as (model, spec):
        found = netproof.bounds(model, spec, method=method, threads=1, timeout=60)
    return np.asarray(found.lower).ravel(), np.asarray(found.upper).ravel()


def search(look: Look) -> Figure:
    """Draw how the bound of a bundled question rises, and how many sub-domains are open, as the search goes on."""
    domains, bounds, still_open = _searched()
    figure = Figure(figsize=(8, 2.7), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.step(domains, bounds, where="post", color=look.good, linewidth=2)
    left.axhline(0, color=look.bad, linewidth=1, linestyle="--")
    left.annotate("above 0: proved", (domains[0], 0), xytext=(0, -13), textcoords="offset points", color=look.bad)
    left.set(xlabel="sub-domains bounded", ylabel="proved bound")
    right.step(domains, still_open, where="post", color=look.cold, linewidth=2)
    right.set(xlabel="sub-domains bounded", ylabel="still open", ylim=(0, None))
    return figure


@functools.cache
def _searched() -> tuple[list[int], list[float], list[int]]:
    """Search with one sub-domain at a time and hear of each: the clock, which thins reports out, has no say."""
    told: list[netproof.Progress] = []
    none = dict.fromkeys(("steps", "probes", "root_steps", "tighter_roots", "rebound"), 0)
    options = {"batch": 1, "lp_turns": False, **none}
    asked = {"method": "beta", "options": options, "threads": 1, "attack": False, "progress": told.append}
    with _demo("fc-4-needs-splits") as (model, spec), mock.patch.object(rounds, "REPORT_EVERY", -1.0):
        assert netproof.verify(model, spec, **asked).proved
    seen = [one for one in told if one.phase == "search" and one.lower_bound is not None]
    return [one.domains for one in seen], [one.lower_bound or 0.0 for one in seen], [one.frontier for one in seen]


@contextmanager
def _demo(name: str) -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (found,) = (one for one in copy_data(folder) if one.name == name)
        yield str(folder / found.onnx), str(folder / found.vnnlib)


def flow(look: Look) -> Figure:
    """Draw the way of a question."""
    figure = Figure(figsize=(8, 2.3), layout="constrained")
    ax = figure.add_subplot()
    ax.set(xlim=(0, 100), ylim=(0, 30))
    ax.axis("off")
    stages = ("network, region,\nproperty", "attack", "root", "branch\nand bound")
    arrow = {"arrowstyle": "-|>", "mutation_scale": 11}
    for at, text in enumerate(stages):
        _box(ax, (1 + 26 * at, 18, 20, 10), text, look.ink)
        if at:
            ax.add_patch(FancyArrowPatch((26 * at - 5, 23), (26 * at + 1, 23), color=look.ink, **arrow))
    _box(ax, (19, 1, 24, 10), "sat\na point fails, and is replayed", look.bad)
    _box(ax, (49, 1, 24, 10), "unsat\nevery sub-domain is proved", look.good)
    _box(ax, (79, 1, 20, 10), "timeout, unknown\nwith a reason", look.cold)
    ways = ((36, 33), (58, 38), (62, 60), (84, 42), (88, 68), (92, 90))
    for start, end in ways:
        ax.add_patch(FancyArrowPatch((start, 18), (end, 11), color=look.faint, **arrow))
    return figure


def _box(ax: Any, place: tuple[float, float, float, float], text: str, colour: str) -> None:
    left, bottom, width, height = place
    style = "round,pad=0,rounding_size=1.5"
    ax.add_patch(
        FancyBboxPatch((left, bottom), width, height, boxstyle=style, facecolor="none", edgecolor=colour, linewidth=1.4)
    )
    ax.annotate(text, (left + width / 2, bottom + height / 2), ha="center", va="center", fontsize=9, color=colour)


FIGURES: dict[str, Callable[[Look], Figure]] = {
    "flow": flow, "relu": relu, "bars": bars, "boxes": boxes, "search": search,
}  # fmt: skip


def drawn() -> Iterator[tuple[str, str]]:
    """Yield every figure in every version: the name of its file, and the SVG."""
    for name, draw in FIGURES.items():
        for look in LOOKS:
            file = io.StringIO()
            with mpl.rc_context(settings(look)):
                draw(look).savefig(file, format="svg", metadata={"Date": None})
            yield f"{name}-{look.name}.svg", file.getvalue()
