"""What `netproof reproduce bounds` is asked, and each curve: an earlier run's, or computed now."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from netproof.cli import options
from netproof.core.deadline import Deadline
from netproof.errors import UsageError
from netproof.paper.figures import bounds as page
from netproof.paper.figures.bounds import Question
from netproof.paper.figures.curve import Curve, Slopes
from netproof.paper.line import Line
from netproof.paper.sets import find_sets
from netproof.paper.tables.output import Output, keep


def questions(
    data: str | None, set_name: str, boxes: str | None, index: int | None, model: str | None, spec: str | None
) -> list[Question]:
    """Return what is asked: one property of a set, or without an index all of it, or files of one's own."""
    if model is not None or spec is not None:
        if data is not None or index is None:
            raise UsageError("--model and --spec name one instance", remedy="leave out --data and --all, or them")
        files = options.model_and_spec([path for path in (model, spec) if path is not None])
        return [Question(Path(files[1]).name, *map(Path, files))]
    if data is None:
        raise UsageError("no instance was given", remedy="give --data DIR, or --model M.onnx --spec P.vnnlib")
    found: list[Question] = []
    for one in find_sets(data, [set_name], boxes=boxes, published=False).values():
        if index is not None and not 0 <= index < len(one.instances):
            last = len(one.instances) - 1
            raise UsageError(f"--index: {index} is not within 0 to {last}", remedy="choose one of the set")
        for i in one.instances if index is None else one.instances[index : index + 1]:
            paths = (Path(options.existing(str(path))) for path in (i.onnx, i.vnnlib))
            found.append(Question(f"{one.name}/{i.names[1]}" if boxes == "both" else i.names[1], *paths))
    return found


def curve_of(
    output: Output, question: Question, steps: int, slopes: Slopes, engine: options.Engine, title: str, quiet: bool
) -> Curve:
    """Return the curve of an earlier run if it is there, else compute and keep it."""
    path = page.kept(output, question, steps, slopes, engine.device)
    curve = page.load(path)
    if curve is None:
        line = Line(title, quiet)
        curve = page.compute(
            question,
            steps=steps,
            slopes=slopes,
            device=engine.device,
            threads=engine.threads,
            deadline=Deadline(engine.timeout),
            progress=line.show,
        )
        line.clear()
        if curve is None:
            remedy = "give more time, or fewer --steps"
            raise UsageError(f"not finished in {engine.timeout:g} s", file=question.name, remedy=remedy)
        keep(path, dataclasses.asdict(curve))
    return curve


def course(curve: Curve) -> str:
    """Say in a few words how a curve went."""
    crossed = "never crossed" if curve.crossing is None else f"crossed at step {curve.crossing}"
    under = "stays under" if curve.stays_under else "PASSES"
    return f"{crossed}, {under} the second LP  {curve.seconds:.1f} s"
