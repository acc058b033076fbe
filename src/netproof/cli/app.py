"""The commands, and their exit codes.

Exit 0 when an answer was written, 2 for bad input or usage, 130 after Ctrl-C, 1 for a bug in netproof (of bench, doctor
and demo: for a wrong answer or installation), 3 where `certify` stays below --at-least.
Nothing heavy is imported here: `--help` must answer at once.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from netproof._version import __version__
from netproof.cli.certify import command as certify
from netproof.cli.commands import (
    bench,
    bounds,
    certificate,
    check,
    demo,
    doctor,
    inspect,
    methods,
    report,
    supports,
    verify,
)
from netproof.cli.exits import EXIT_BUG, EXIT_INTERRUPTED, EXIT_USAGE
from netproof.cli.process.command_line import note_arguments
from netproof.cli.process.supervisor import WorkerBug
from netproof.cli.robust import command as robust
from netproof.cli.show.help import Command, epilogue, untyped
from netproof.cli.show.output import print_err, print_out
from netproof.core.files import is_of_path
from netproof.core.plug_ins import load, points
from netproof.errors import NetproofError, UsageError, of_path

# What a library says of an option that should be a number, and what we say.
NOT_A_NUMBER = {
    "Input should be a valid number, unable to parse string as a number": "not a number (write one such as 2.5)",
    "Input should be a valid integer, unable to parse string as an integer": "not a whole number (write one such as 3)",
}
# Typer exports this one and not its base; click, on which older versions rest, need not be importable.
CommandLineError: type[Exception] = typer.BadParameter.__mro__[1]


class _Commands(TyperGroup):
    def get_help_option(self, ctx: Any) -> Any:
        """Return --help itself, without its type."""
        return untyped(super().get_help_option(ctx))

    def get_params(self, ctx: Any) -> Any:
        """Return the options, flags without their type."""
        return [untyped(parameter) for parameter in super().get_params(ctx)]

    def invoke(self, context: Any) -> Any:
        """Run a command; where it does not handle Ctrl-C itself, say so: typer alone would end it silently."""
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            print_err("netproof: interrupted")
            return EXIT_INTERRUPTED


app = typer.Typer(
    name="netproof",
    cls=_Commands,
    help="Does this network satisfy this property on a whole input set? A proof, or a counterexample.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    verify.verify,
    robust.robust,
    certify.certify,
    bounds.bounds,
    inspect.inspect,
    bench.bench,
    report.report,
    certificate.certificate,
    methods.methods,
    doctor.doctor,
    demo.demo,
):
    app.command(cls=Command, epilog=epilogue(command.__name__))(command)
# What is asked of it looks like an option.
app.command(cls=Command, context_settings={"ignore_unknown_options": True})(supports.supports)
app.command(cls=Command, context_settings={"ignore_unknown_options": True})(check.check)


def _plug_in(point: EntryPoint) -> None:
    """Add the commands of another package; where they cannot be loaded, calling them says why."""
    try:
        commands = load(point)
    except UsageError as error:
        reason = error

        def broken() -> int:
            raise reason

        app.command(name=point.name, help="(cannot be loaded)")(broken)
    else:
        for one in commands.registered_commands:
            one.cls = Command if one.cls in (None, TyperCommand) else one.cls
        app.add_typer(commands, name=point.name)


for _point in points("netproof.commands"):
    _plug_in(_point)


def _print_name(wanted: bool) -> None:
    if wanted:
        print_out("netproof\n")
        raise typer.Exit


def _print_version(wanted: bool) -> None:
    if wanted:
        print_out(f"{__version__}\n")  # the number alone, as VNN-LIB 2.0 asks: --name has the name
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    name: Annotated[
        bool, typer.Option("--name", help="Show the name and exit.", callback=_print_name, is_eager=True)
    ] = False,
    version: Annotated[
        bool,
        typer.Option("--version", "-V", help="Show the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> int:
    if context.invoked_subcommand is None:
        print_out(context.get_help())
        return EXIT_USAGE
    return 0


def run(arguments: Sequence[str]) -> int:
    """Obey a command line and return the exit code."""
    note_arguments(arguments)
    try:
        result: Any = app(list(arguments), prog_name="netproof", standalone_mode=False)
        return int(result or 0)
    except NetproofError as error:
        print_err(f"netproof: error: {error}")
        return EXIT_USAGE
    except SystemExit as ended:
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        return 0  # rich ends so where no one reads what it prints any more
    except OSError as error:
        if not is_of_path(error):
            raise
        print_err(f"netproof: error: {of_path(error)}")
        return EXIT_USAGE
    except CommandLineError as error:
        print_err(f"netproof: error: {_usage(error)}")
        return EXIT_USAGE
    except (KeyboardInterrupt, typer.Abort):
        print_err("netproof: interrupted")
        return EXIT_INTERRUPTED
    except WorkerBug as bug:
        _say_bug(str(bug), bug.trace)
        return EXIT_BUG


def _usage(error: Any) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "netproof"
    message = " ".join(error.format_message().split()).rstrip(".")
    for words, ours in NOT_A_NUMBER.items():
        message = message.replace(words, ours)
    return f"{message} (see `{command} --help`)"


def report_bug(error: Exception) -> int:
    """Report an exception that nothing caught; return the exit code."""
    _say_bug(f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)))
    return EXIT_BUG


def _say_bug(summary: str, trace: str) -> None:
    if os.environ.get("NETPROOF_TRACEBACK"):
        print_err(trace.rstrip("\n"))
    hint = "" if os.environ.get("NETPROOF_TRACEBACK") else " with what NETPROOF_TRACEBACK=1 shows"
    print_err(f"netproof: internal error: {' '.join(summary.split())} (this is a bug in netproof: report it{hint})")
