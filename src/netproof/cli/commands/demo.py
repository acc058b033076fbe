"""`netproof demo`: prove and break the bundled networks, with pictures."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netproof.cli import options
from netproof.cli.commands.verify import prepare
from netproof.cli.exits import EXIT_INTERRUPTED
from netproof.cli.process.start_time import command_started
from netproof.cli.process.supervisor import Ending, supervise
from netproof.cli.show.layout import Column, fitting_table
from netproof.cli.show.output import print_err, print_out
from netproof.cli.show.progress import Display
from netproof.cli.show.summary import SHORT
from netproof.errors import UsageError
from netproof.run.record import Record
from netproof.workers.worker import Job

if TYPE_CHECKING:
    from netproof.core.verdict import Witness
    from netproof.demo import Instance
    from netproof.model.network import Network

PATIENCE = 120.0  # seconds per question; each takes a few


@dataclass(frozen=True)
class Row:
    """One question of the demo, and its answer."""

    instance: Instance
    record: Record
    seconds: float
    picture: str  # of what breaks it, within the folder; else empty


def demo(
    out: Annotated[
        str, typer.Option(metavar="DIR", help="Where networks, specs and pictures go.", callback=options.not_empty)
    ] = "netproof-demo",
    device: options.Device = "auto",
    threads: options.Threads = None,
) -> int:
    """Prove some bundled networks, break others, and draw what broke them."""
    from netproof.demo import copy_data

    started = command_started()
    engine = options.engine(method="auto", device=device, threads=threads, timeout=None, settings=None)
    folder = Path(out)
    try:
        (folder / "pictures").mkdir(parents=True, exist_ok=True)
        instances = copy_data(folder)
    except OSError as error:
        raise UsageError(
            f"--out cannot be written: {error.strerror or error}", file=out, remedy="choose a writable place"
        ) from error
    display = Display(started=started, timeout=None)
    rows: list[Row] = []

    def heed(event: Any) -> None:
        if isinstance(event, Row):
            rows.append(event)
        else:
            display.update(event)

    work = functools.partial(_work, instances=instances, folder=folder, engine=engine)
    with contextlib.closing(display):
        outcome = supervise(work, started=started, on_event=heed, on_tick=display.tick)
    show(rows, folder)
    if outcome.ending == Ending.INTERRUPTED:
        print_err(f"netproof: {outcome.reason}")
        return EXIT_INTERRUPTED
    if outcome.ending == Ending.DIED:
        print_err(f"netproof: error: {outcome.reason}")
        return 1
    return _disagreements(rows)


def _disagreements(rows: Sequence[Row]) -> int:
    """Report answers that differ from the known ones of the bundled questions; return 1 if there are any, else 0."""
    wrong = [row for row in rows if row.record.verdict != row.instance.expected]
    for row in wrong:
        reason = f" ({row.record.reason})" if row.record.reason else ""
        expected = f"expected {row.instance.expected}, got {row.record.verdict}"
        print_err(f"netproof: {row.instance.name}: {expected}{reason}")
    return 1 if wrong else 0


def _work(job: Job, *, instances: list[Instance], folder: Path, engine: options.Engine) -> None:
    prepare(engine)
    from netproof import api
    from netproof.model.load import load_network

    networks: dict[str, Network] = {}
    for instance in instances:
        if job.deadline.expired:
            break
        began = time.monotonic()
        if instance.onnx not in networks:
            networks[instance.onnx] = load_network(str(folder / instance.onnx))
        verdict = api.verify(
            networks[instance.onnx],
            str(folder / instance.vnnlib),
            **engine.arguments(),
            deadline=job.part(PATIENCE),
            progress=job.teller(title=instance.name),
        )
        seconds, picture = time.monotonic() - began, ""
        if verdict.witness is not None:
            picture = draw(instance, networks[instance.onnx], verdict.witness, folder)
        job.tell(Row(instance, Record.of(verdict), seconds, picture))


def draw(instance: Instance, network: Network, witness: Witness, folder: Path) -> str:
    """Draw the picture of one counterexample; return its path within the folder."""
    import numpy as np
    from PIL import Image

    from netproof.cli.show.picture import draw_counterexample

    with Image.open(folder / instance.image) as file:
        pixels = np.asarray(file.convert("L")).astype(np.float32) / np.float32(255)
    name = f"pictures/{instance.name}.png"
    drawn = draw_counterexample(
        title=f"{instance.name}: broken within eps = {instance.eps:g}",
        original=pixels,
        broken=witness.input.reshape(pixels.shape),
        scores=network.replay(pixels.reshape(network.input_shape)).reshape(-1),
        broken_scores=witness.output.reshape(-1),
        label=instance.label,
    )
    (folder / name).write_bytes(drawn)
    return name


def show(rows: Sequence[Row], folder: Path) -> None:
    """Print the table to stdout, since the demo is for people."""
    from rich.console import Console

    columns = [Column("name"), Column("network", 2), Column("eps", right=True), Column("verdict")]
    cells = []
    for row in rows:
        word, colour = SHORT[row.record.verdict]
        one, verdict = row.instance, f"[bold {colour}]{word}[/]"
        cells.append((one.name, Path(one.onnx).stem, f"{one.eps:g}", verdict, f"{row.seconds:.2f}"))
    console = Console(emoji=False)
    console.print(fitting_table([*columns, Column("seconds", 1, right=True)], cells, console.width))
    counts = [sum(row.record.verdict == verdict for row in rows) for verdict in ("unsat", "sat")]
    lines = [f"{counts[0]} proved for every input, {counts[1]} broken, {len(rows) - sum(counts)} undecided."]
    pictures = [row.picture for row in rows if row.picture]
    if pictures:
        lines.append("Pictures of what broke them (original, counterexample, difference):")
        lines += [f"  {folder / picture}" for picture in pictures]
    lines.append(f"Networks, specs and images: {folder}/onnx, {folder}/vnnlib, {folder}/images")
    if rows:
        files = f"{folder}/{rows[0].instance.onnx} {folder}/{rows[0].instance.vnnlib}"
        lines.append(f"Ask one yourself: netproof verify {files}")
    print_out("\n".join(lines) + "\n")
