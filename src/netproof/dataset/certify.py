"""The public function `certify`: clean, attacked and certified accuracy of a data set."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from netproof import arguments
from netproof.api import Run, within
from netproof.certificate.room import Room
from netproof.certificate.wish import Wish
from netproof.core.deadline import Deadline
from netproof.core.torch_state import engine_state
from netproof.dataset.engine import Certifier, CertifyProgress, Limits
from netproof.dataset.images import read_images, read_norm
from netproof.dataset.result import Certification
from netproof.model.combined import about
from netproof.model.load import read_network
from netproof.model.network import Network
from netproof.problem.specs import Clip, Number

SECONDS = 60.0  # for each image, where nothing else is said


@engine_state()
def certify(
    model: Any,
    X: Any,
    y: Any,
    eps: Number,
    norm: str | float = "inf",
    clip: Clip | None = None,
    *,
    timeout: float | None = SECONDS,
    method: str = "auto",
    device: str = "auto",
    threads: int | None = None,
    seed: int = 0,
    attack: bool | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[CertifyProgress], None] | None = None,
    certificates: str | Path | None = None,
) -> Certification:
    """Certify a data set: for every image that all inputs within eps of it keep its label, or a counterexample.

    model: as `verify` takes it. X: images (N, *input), y: labels (N,). eps: the radius, as a number or a text such as
    "2/255"; norm: "inf", 2 or 1; clip: the range that values have, as (0, 1).
    timeout: seconds for each image; None: as long as it takes. progress: is given a CertifyProgress again and again.
    certificates: a folder for certificates of the images that are proved, for `npcheck`; what became of each is in the
    image's `certificate`.
    """
    began = time.monotonic()
    attack = None if attack is None else arguments.flag(attack, "attack")
    seconds, tell = arguments.seconds(timeout), arguments.callback(progress, "progress")
    items = read_images(X, y, eps, norm, clip)
    with ExitStack() as until_the_end:
        until_the_end.enter_context(within(None))
        wish = None
        if certificates is not None:
            folder = Wish.folder_at(arguments.path(certificates, "certificates", "the name of a folder"))
            wish = Wish(folder, until_the_end.enter_context(closing(Room.within(folder))).path)
        run = Run(method, options, device, threads, seed, Deadline(None), None)
        network = read_network(model, items[0].load()[0].shape, stacked=True)
        limits = Limits(seconds, tell=tell)
        certifier = Certifier(run, network, limits, loaded=isinstance(model, Network), attack=attack, wish=wish)
        found = {image.index: image for image in certifier.run(items)}
    images = tuple(image for _, image in sorted(found.items()))
    return Certification(images, str(eps), read_norm(norm), time.monotonic() - began, about(network))
