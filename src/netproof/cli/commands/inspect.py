"""`netproof inspect MODEL.onnx`: what a file holds, and whether netproof can verify it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from netproof.cli import options
from netproof.cli.exits import EXIT_INTERRUPTED, EXIT_USAGE
from netproof.cli.process.start_time import command_started
from netproof.cli.process.supervisor import Ending, supervise
from netproof.cli.show.output import Outputs, print_err, text_table, to_json
from netproof.run.schema import VERSION
from netproof.workers.worker import Job


def inspect(
    model: Annotated[str, typer.Argument(metavar="MODEL.onnx", help="The file; .gz too.")],
    output: options.Output = None,
    json: options.Json = None,
) -> int:
    """Show a network's operators, shapes and neurons, and every node that is not supported.

    Exit 2 if there is one, or if `netproof verify` would refuse the file otherwise. The JSON has the keys path, sha256,
    opset, operators (name: count), input_shape, output_shape, inputs and outputs (name, shape, dtype), weight_dtypes,
    layers (index, name, op, inputs, shape, parameters), neurons (node: count), parameters, notes, supported, and
    unsupported (node, op, line).
    """
    path = options.model_file(model)
    outputs = Outputs({"--json": json})
    outputs.check((path,))
    outcome = supervise(functools.partial(_work, path=path, names=output or None), started=command_started())
    if outcome.ending == Ending.INTERRUPTED:
        print_err(f"netproof: {outcome.reason}")
        return EXIT_INTERRUPTED
    if outcome.result is None:
        print_err(f"netproof: error: {path}: {outcome.reason} (a smaller model, or more memory)")
        return EXIT_USAGE
    found = outcome.result
    outputs.deliver({"--json": to_json(found)}, "\n".join(_lines(found)) + "\n")
    return outputs.exit_code(0 if found["supported"] else EXIT_USAGE)


def _work(job: Job, *, path: str, names: list[str] | None) -> dict[str, Any]:
    from netproof.model.describe import describe

    found = dataclasses.asdict(describe(path, names))
    unsupported = found.pop("unsupported")
    return {"schema": VERSION, **found, "supported": not unsupported, "unsupported": unsupported}


def _lines(found: dict[str, Any]) -> Iterator[str]:
    facts = {
        "file": found["path"],
        "sha256": found["sha256"],
        "opset": found["opset"],
        "input": _sizes(found["input_shape"], found["inputs"]),
        "output": "unknown" if found["output_shape"] is None else _sizes(found["output_shape"], found["outputs"]),
        "operators": ", ".join(f"{count} {op}" for op, count in found["operators"].items()),
    }
    if not found["unsupported"]:
        total = sum(found["neurons"].values())
        facts["weights"] = f"{found['parameters']} in {', '.join(found['weight_dtypes']) or 'no tensors'}"
        facts["neurons"] = f"{total} nonlinear, in {len(found['neurons'])} layers"
    yield from (f"{name:<10} {value}" for name, value in facts.items())
    yield from (f"{'note':<10} {note}" for note in found["notes"])
    yield ""
    if found["unsupported"]:
        yield f"NOT SUPPORTED: {len(found['unsupported'])} of its nodes"
        yield from (f"  {node['line'].removeprefix(found['path'] + ': ')}" for node in found["unsupported"])
        return
    yield _table(found["layers"])
    yield "SUPPORTED: netproof can verify this network"


def _sizes(shape: Sequence[int], parts: Sequence[dict[str, Any]]) -> str:
    """Write a shape; of several tensors that make one vector, all of theirs too."""
    if len(parts) < 2:
        return _shape(shape)
    return f"{_shape(shape)}: " + ", ".join(f"{part['name']} {_shape(part['shape'])}" for part in parts)


def _shape(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _table(layers: Sequence[dict[str, Any]]) -> str:
    header = ("node", "op", "inputs", "shape", "weights", "name")
    rows = [
        (
            str(layer["index"]),
            layer["op"],
            ",".join(map(str, layer["inputs"])),
            _shape(layer["shape"]),
            str(layer["parameters"] or ""),
            layer["name"],
        )
        for layer in layers
    ]
    return text_table(header, rows, names=len(header))
