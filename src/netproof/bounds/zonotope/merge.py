"""Generators of several origins put into one batch, where that makes them hardly larger: it is passes that cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from netproof.bounds.linear.coefficients import Dense
from netproof.bounds.windows.frame import Frame, Places
from netproof.bounds.windows.moves import united
from netproof.bounds.windows.windowed import Windowed
from netproof.bounds.zonotope.zonotope import Generators, Zonotope

LARGER = 1.5  # times the numbers that there were


def merged(forms: Zonotope) -> Zonotope:
    """Return the same forms, with their generators in fewer batches: all in one, or all but the largest.

    Only where no other node's forms are to be added to these: batches are told by their origin.
    """
    groups = dict(forms.generators)
    if len(groups) < 2:
        return forms
    largest = max(groups, key=lambda began: groups[began].values.numel())
    for kept in ((), (largest,)):
        some = {began: one for began, one in groups.items() if began not in kept}
        one = _one(some)
        if one is not None:
            left = {began: groups[began] for began in kept}
            return replace(forms, generators={**left, min(some): one})
    return forms


def _one(groups: Mapping[int, Generators]) -> Generators | None:
    """Return all generators in one batch; None where that would be much larger, or is none already."""
    parts = list(groups.values())
    if len(parts) < 2:
        return None
    now, count = sum(some.values.numel() for some in parts), sum(len(some.values) for some in parts)
    frames = [_own(some) for some in parts]
    frame = united(frames)
    if frame is not None:
        if count * frame.area * parts[0].values.shape[-1] > LARGER * now:
            return None
        whole = parts[0].values.new_zeros(count, *frame.size, parts[0].values.shape[-1])
        for part, some, own in zip(whole.split([len(some.values) for some in parts]), parts, frames, strict=True):
            assert own is not None
            _, _, left, _, top, _ = own.pads_to(frame)
            part[:, top : top + own.size[0], left : left + own.size[1]] = some.values
        places = [some.places.at(some.frame.path) for some in parts if isinstance(some, Windowed)]
        return Windowed(whole, frame, Places(torch.cat(places)))
    size = next((some.values[0].numel() for some in parts if isinstance(some, Dense)), None)
    if size is None or count * size > LARGER * now:
        return None
    dense = [some.dense() for some in parts]
    return Dense(torch.cat(dense), dense[0].dim() - 1)


def _own(some: Generators) -> Frame | None:
    """Return where windows lie by the places divided already; None of dense ones, and where places are scaled."""
    if isinstance(some, Dense) or some.frame.scale != (1, 1):
        return None
    return replace(some.frame, path=())
