"""`netproof bounds MODEL.onnx SPEC.vnnlib`: both sides of every output over a spec's input set, or around an image."""

from __future__ import annotations

import contextlib
import functools
import time
from typing import Annotated, Any

import typer

from netproof.cli import options
from netproof.cli.commands.verify import prepare
from netproof.cli.exits import EXIT_INTERRUPTED
from netproof.cli.process.start_time import command_started
from netproof.cli.process.supervisor import Ending
from netproof.cli.robust.command import Norm, read_question
from netproof.cli.robust.limit import supervise_image
from netproof.cli.robust.preprocess import (
    Clip,
    Mean,
    Preprocess,
    Preprocessing,
    Resize,
    Std,
    read_preprocessing,
)
from netproof.cli.robust.question import Question
from netproof.cli.show.output import Outputs, print_err, to_json
from netproof.cli.show.progress import Display
from netproof.errors import UsageError
from netproof.run.schema import VERSION
from netproof.workers.worker import Job

METHODS = ("ibp", "crown", "alpha", "lp", "exact")


def bounds(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL.onnx [SPEC.vnnlib]",
            help="In either order; only the spec's input boxes count. Without a spec, --image and --eps.",
        ),
    ],
    image: Annotated[
        str | None, typer.Option(metavar="FILE", help="Bound around this .png, .jpg or .npy, instead of a spec.")
    ] = None,
    eps: Annotated[str | None, typer.Option(metavar="E", help="The radius around the image, as 2/255.")] = None,
    norm: Norm = "inf",
    preprocess: Preprocess = None,
    mean: Mean = None,
    std: Std = None,
    resize: Resize = False,
    clip: Clip = None,
    method: Annotated[
        str,
        typer.Option(metavar="|".join(METHODS), help="From fastest to tightest; exact is the true range."),
    ] = "alpha",
    timeout: options.Timeout = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    output: options.Output = None,
    json: options.Json = None,
    quiet: options.Quiet = False,
) -> int:
    """Bound every output from both sides. stdout: one line `Y_i lower upper` per output."""
    started = command_started()
    question: Question | None = None
    pixels = read_preprocessing(preprocess, mean, std, resize=resize)
    if image is None and eps is None:
        model, spec = options.model_and_spec(files, instead="--image and --eps")
        pixels.refuse(spec, "a spec is of the network's own inputs")
        _refuse_without_image(norm, clip)
    else:
        question = _question(files, image, eps, norm, clip, pixels)
        model, spec = options.model_file(files[0]), question.image
    if method not in METHODS:
        raise UsageError(f"--method: unknown bound {method!r}", remedy="use " + ", ".join(METHODS))
    engine = options.engine(method="auto", device=device, threads=threads, timeout=timeout, settings=None)
    engine = engine.asking(output)
    outputs = Outputs({"--json": json})
    outputs.check((model, spec, *pixels.files))
    display = Display(started=started, timeout=timeout, quiet=quiet)
    work = functools.partial(_work, model=model, spec=spec, question=question, method=method, engine=engine)
    with contextlib.closing(display):
        outcome = supervise_image(work, question, model, display.update, display.tick, started, timeout)
    nothing: dict[str, Any] = {"lower": None, "upper": None, "exact": False, "reason": outcome.reason, "about": None}
    found = outcome.result or nothing
    found.update(method=method, seconds=time.monotonic() - started, model=model, property=spec)
    found = {"schema": VERSION, **found}
    outputs.deliver({"--json": to_json(found)}, _table(found) if outcome.result else f"{outcome.verdict}\n")
    if not quiet:
        print_err(_summary(found))
    return outputs.exit_code(EXIT_INTERRUPTED if outcome.ending == Ending.INTERRUPTED else 0)


def _refuse_without_image(norm: str, clip: str | None) -> None:
    """Refuse what says something of an image where there is none, rather than leave it out of account."""
    for option, given in (("--norm", norm != "inf"), ("--clip", clip is not None)):
        if given:
            raise UsageError(
                f"{option}: a spec has its own input set", remedy="leave it out, or give --image and --eps"
            )


def _question(
    files: list[str], image: str | None, eps: str | None, norm: str, clip: str | None, pixels: Preprocessing
) -> Question:
    """Read what is asked about an image."""
    if image is None or eps is None:
        missing = "--image" if image is None else "--eps"
        raise UsageError(f"{missing} is missing", remedy="give both --image and --eps, or a spec")
    if len(files) > 1:
        raise UsageError(
            f"both --image and {files[1]}", remedy="give a spec, or --image and --eps: netproof bounds MODEL.onnx"
        )
    return read_question(image, eps, norm, clip, pixels)


def _work(
    job: Job, *, model: str, spec: str, question: Question | None, method: str, engine: options.Engine
) -> dict[str, Any]:
    prepare(engine)
    from netproof import api

    asked: Any = spec
    network: Any = model
    if question is not None:
        from netproof.cli.robust.image import read_centre, region
        from netproof.model.load import load_network

        network = load_network(model, outputs=engine.outputs)
        asked = region(question, read_centre(question, tuple(network.input_shape)))
    found = api.bounds(
        network,
        asked,
        outputs=engine.outputs,
        method=method,
        device=engine.device,
        threads=engine.threads,
        deadline=job.deadline,
        progress=job.teller(),
    )
    return {
        "lower": found.lower.reshape(-1).tolist(),
        "upper": found.upper.reshape(-1).tolist(),
        "exact": bool(found.exact),
        "reason": found.reason,
        "about": None if found.about is None else found.about.to_dict(),
    }


def _table(found: dict[str, Any]) -> str:
    """Write every digit that is known, so that the numbers can be used and not only looked at."""
    rows = [
        (f"Y_{i}", repr(lo), repr(hi)) for i, (lo, hi) in enumerate(zip(found["lower"], found["upper"], strict=True))
    ]
    first, second = (max((len(row[k]) for row in rows), default=0) for k in (0, 1))
    return "".join(f"{name:<{first}} {lower:>{second}} {upper}\n" for name, lower, upper in rows)


def _summary(found: dict[str, Any]) -> str:
    if found["lower"] is None:
        return f"UNDECIDED: {found['reason']}; try a faster --method, or a longer --timeout"
    kind = "the true range" if found["exact"] else "proved, maybe wider than the true range"
    widest = max((hi - lo for lo, hi in zip(found["lower"], found["upper"], strict=True)), default=0.0)
    reason = f"; {found['reason']}" if found["reason"] else ""
    return (
        f"BOUNDED: {len(found['lower'])} outputs, {kind}{reason}\n"
        f"  {found['seconds']:.2f} s, widest {widest:.6g}, method {found['method']}"
    )
