"""The work behind `netproof certify`: read the data set, certify it, and send every answer as it is found."""

from __future__ import annotations

import dataclasses
import functools
import io
import zipfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from netproof.api import Run
from netproof.cli.certify.places import Places
from netproof.cli.certify.source import Source
from netproof.cli.options import Engine
from netproof.cli.robust.image import Centre, read_centre, region
from netproof.cli.robust.question import Question
from netproof.core.deadline import Deadline
from netproof.core.files import write_whole
from netproof.core.machine.versions import accelerator
from netproof.core.shown.panels import panels
from netproof.core.shown.picture import Layout, layout_of
from netproof.core.torch_state import engine_state
from netproof.dataset.engine import Certifier, CertifyProgress, Limits
from netproof.dataset.images import Item, read_images
from netproof.dataset.result import FAILURES, ImageResult, ImageStatus
from netproof.dataset.store import Kept, counterexample
from netproof.errors import UsageError
from netproof.model.combined import about
from netproof.model.load import load_network
from netproof.model.network import Network
from netproof.problem.specs import InputRegion
from netproof.workers.worker import Job


@engine_state()
def certify_all(
    job: Job,
    *,
    model: str,
    source: Source,
    question: Question,
    engine: Engine,
    places: Places,
) -> None:
    """Send how many images there are, then every answer that is not there already; some of it goes to files."""
    network = load_network(model, outputs=engine.outputs)
    items, draw = _read(source, question, network)
    source.check(len(items))
    asked = {item.index: item for item in items if source.wants(item.index)}
    run = Run(engine.method, engine.options, engine.device, engine.threads, engine.seed, Deadline(None), None)
    job.tell({"images": len(asked), "gpu": accelerator(str(run.device))["gpu"], "about": about(network)})

    def tell(progress: CertifyProgress) -> None:
        job.tell({"progress": dataclasses.asdict(progress)})

    limits = Limits(engine.timeout, job.part, tell)
    certifier = Certifier(run, network, limits, loaded=True, attack=engine.attack, wish=places.wish)
    for result in certifier.run([item for index, item in asked.items() if index not in places.answered]):
        name = str(result.index) if source.files is None else source.files[result.index][0]
        picture = draw(asked[result.index], result) if result.status in FAILURES else b""
        if places.out is not None and result.status == ImageStatus.BROKEN and result.witness is not None:
            _keep(result.witness.given, Path(places.out), result.index)
        job.tell(Kept(dataclasses.replace(result, witness=None), name, engine.timeout, picture))


def _keep(point: np.ndarray, folder: Path, index: int) -> None:
    """Write a counterexample as NumPy's .npy, in the shape that the network takes."""
    buffer = io.BytesIO()
    np.save(buffer, point)
    try:
        path = folder / counterexample(index)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, buffer.getvalue())
    except OSError as error:
        remedy = "give another folder with --out, or free the disk"
        raise UsageError(f"cannot be written: {error.strerror}", file=str(folder), remedy=remedy) from error


Draw = Callable[[Item, ImageResult], bytes]


def _read(source: Source, question: Question, network: Network) -> tuple[list[Item], Draw]:
    """Return the images, and what draws one of them that failed."""
    if source.files is None:
        X, y = _arrays(source.path)
        items = read_images(X[: source.first], y[: source.first], question.eps, question.norm, question.clip)
        return items, functools.partial(_draw, _as_it_is(layout_of(network.input_shape)))
    shape = tuple(network.input_shape)
    items = []
    for index, (name, label) in enumerate(source.files[: source.first]):
        asked = dataclasses.replace(question, image=str(Path(source.path, name)))
        items.append(Item(index, label, functools.partial(_load, asked, shape)))
    return items, lambda item, result: _draw(_from_file(_asked(item), shape), item, result)


def _arrays(path: str) -> tuple[np.ndarray, np.ndarray]:
    """Read X and y of an .npz."""
    try:
        with np.load(path, allow_pickle=False) as held:
            missing = [name for name in ("X", "y") if name not in held]
            if missing:
                there = ", ".join(held.files) or "nothing"
                raise UsageError(
                    f"it has no array {' and no array '.join(missing)} (it holds {there})",
                    file=path,
                    remedy="save it with numpy.savez(path, X=images, y=labels)",
                )
            return held["X"], held["y"]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise UsageError(
            f"not a readable .npz file: {first}", file=path, remedy="save it with numpy.savez(path, X=images, y=labels)"
        ) from error


def _load(question: Question, shape: tuple[int, ...]) -> tuple[np.ndarray, InputRegion]:
    centre = read_centre(question, shape)
    if question.clip is not None:
        _refuse_outside(question, centre.values, *question.clip)
    return centre.as_input(), region(question, centre)


def _refuse_outside(question: Question, values: np.ndarray, low: Fraction, high: Fraction) -> None:
    """Refuse an image that the range does not hold, as those of an .npz: it was scaled otherwise than is said."""
    if (values < low).any() or (values > high).any():
        raise UsageError(
            f"it has values from {float(values.min()):.4g} to {float(values.max()):.4g}, outside of --clip",
            file=question.image,
            remedy="give the range that the images have, or leave --clip out",
        )


def _asked(item: Item) -> Question:
    load: Any = item.load
    question: Question = load.args[0]
    return question


Picture = Callable[[np.ndarray], np.ndarray]  # an input of the network as a picture, (H, W) or (H, W, 3)


def _as_it_is(layout: Layout | None) -> Picture | None:
    return None if layout is None else layout.picture


def _from_file(question: Question, shape: tuple[int, ...]) -> Picture | None:
    centre: Centre = read_centre(question, shape)
    layout = centre.layout or layout_of(shape)
    return None if layout is None else lambda values: layout.picture(centre.pixels(values))


def _draw(picture: Picture | None, item: Item, result: ImageResult) -> bytes:
    """Draw an image that failed as SVG: itself, the counterexample and the difference; empty where it is no picture."""
    if picture is None:
        return b""
    original = picture(np.asarray(item.load()[0], dtype=np.float64))
    images = [(original, f"original, label {result.label}", f"read as {result.predicted}")]
    if result.status == ImageStatus.BROKEN and result.witness is not None:
        changed = picture(np.asarray(result.witness.input, dtype=np.float64))
        images.append((changed, "counterexample", f"read as {result.read_as}"))
    return panels(images, f"image {result.index}")
