"""How `--help` looks: usage as it is typed, no types of flags and files, and examples at the end."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

# By command, what people type first.
EXAMPLES = {
    "verify": (
        "netproof verify model.onnx property.vnnlib --timeout 60",
        "netproof verify model.onnx property.vnnlib --picture broken.png --json -",
        "netproof verify query.vnnlib --network f=model.onnx",
    ),
    "robust": (
        "netproof robust model.onnx --image cat.png --eps 2/255 --preprocess cifar10 --picture broken.png",
        "netproof robust model.onnx --image cat.jpg --resize --label 3 --eps 1/255 --preprocess imagenet",
        "netproof robust model.onnx --image digit.png --eps 0.05 --largest",
    ),
    "certify": (
        "netproof certify model.onnx --data test.npz --eps 2/255 --clip 0,1 --out certified",
        "netproof certify model.onnx --data images/ --eps 2/255 --preprocess cifar10 --at-least 0.8",
    ),
    "bounds": (
        "netproof bounds model.onnx property.vnnlib --method exact",
        "netproof bounds model.onnx --image cat.png --eps 2/255",
    ),
    "inspect": ("netproof inspect model.onnx", "netproof inspect model.onnx --json -"),
    "bench": ("netproof bench acasxu_2023 --out results --method auto --method lirpa --timeout 60",),
    "report": ("netproof report results",),
    "certificate": ("netproof certificate p.npcert model.onnx property.vnnlib --to aptp --out proofs",),
    "methods": ("netproof methods", "netproof methods lirpa"),
}


class Command(TyperCommand):
    """A command whose help shows what people type."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.help = _unwrapped(self.help or "")
        for parameter in self.params:
            untyped(parameter)

    def get_help_option(self, ctx: Any) -> Any:
        """Return --help itself, without its type."""
        return untyped(super().get_help_option(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse; an error that does not say whose it is would point to the help of all commands."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if getattr(error, "ctx", ctx) is None:
                error.ctx = ctx  # type: ignore[attr-defined]
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Put arguments first, as they are named."""
        names = [str(one.metavar or one.name) for one in self.params if one.param_type_name == "argument"]
        return [*names, "[OPTIONS]"]


def _unwrapped(text: str) -> str:
    """Leave out the ends of lines within paragraphs, which a terminal of another width would add to its own."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def untyped(parameter: Any) -> Any:
    """Leave the type of a flag or an argument out of its help: the one is none, the other has a name that says it."""
    if getattr(parameter, "is_flag", False) and parameter.metavar is None:
        parameter.metavar = ""
    if getattr(parameter, "param_type_name", "") == "argument":
        parameter.display_type_rich = lambda ctx: None
    return parameter


def epilogue(command: str) -> str | None:
    """Return the examples of a command, a line each; None where there are none."""
    examples = EXAMPLES.get(command, ())
    return "\n\n".join(["Examples:" if len(examples) > 1 else "Example:", *examples]) if examples else None
