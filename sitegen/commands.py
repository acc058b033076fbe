"""The page of commands, from the typer application itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from netproof.cli.app import app

OPTION = re.compile(r"(?<![\w`-])(--[a-z][a-z-]*)(?![^`]*`)")
HEAD = """# Commands

Made from the program itself, so it says what `netproof COMMAND --help` says. Verdicts go to stdout, everything for
people to stderr; [exit codes](exit-codes.md) are the same for all commands.
"""


def page() -> str:
    """Return the page: a section for each command, those of a group under the group."""
    group: Any = typer.main.get_command(app)
    sections = [section for name, command in group.commands.items() for section in _sections(name, command)]
    return "\n".join([HEAD, _options(group), *sections])


def _sections(name: str, command: Any) -> Iterator[str]:
    if command.hidden:
        return
    inner = getattr(command, "commands", {})
    level = "##" if " " not in name else "###"
    yield f"{level} netproof {name}\n\n{_prose(command.help)}\n"
    if not inner:
        yield f"```text\n{usage(name, command)}\n```\n"
    yield _options(command)
    if command.epilog:
        yield f"{_examples(command.epilog)}\n"
    for sub, below in inner.items():
        yield from _sections(f"{name} {sub}", below)


def _examples(text: str) -> str:
    """Return the end of a help text, its commands as code."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    typed = [line for line in lines if line.startswith("netproof ")]
    said = " ".join(line for line in lines if line not in typed)
    return f"{said}\n\n" + ("```text\n" + "\n".join(typed) + "\n```\n" if typed else "")


def usage(name: str, command: Any) -> str:
    """Return the command with its arguments, those of its options that it needs, and that it has others."""
    words = ["netproof", name]
    for parameter in command.params:
        shown = parameter.metavar or parameter.name.upper()
        if parameter.opts[0].startswith("-"):
            words += [f"{parameter.opts[0]} {shown}"] if parameter.required else []
        else:
            shown += "…" if parameter.nargs == -1 else ""
            words.append(shown if parameter.required else f"[{shown}]")
    return " ".join([*words, "[OPTIONS]"])


def _options(command: Any) -> str:
    """Return tables of arguments and options; options that the program shows in groups stand in these groups."""
    groups: dict[str, list[str]] = {}
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        title = getattr(parameter, "rich_help_panel", None) or ""
        groups.setdefault(title, []).append(_row(parameter))
    tables = []
    for title, rows in groups.items():
        named = f"**{title}**\n\n" if title else ""
        tables.append(named + "\n".join(["| | |", "|---|---|", *rows, ""]))
    return "\n".join(tables)


def _row(parameter: Any) -> str:
    names = [*parameter.opts, *parameter.secondary_opts] if parameter.opts[0].startswith("-") else []
    flag = getattr(parameter, "is_flag", False)
    value = "" if flag and names else parameter.metavar or parameter.name.upper()
    shown = " ".join(filter(None, [", ".join(names), value]))
    text = _cell(parameter.help or "")
    if parameter.required and names:
        text += " *Required.*"
    elif (
        not flag
        and parameter.show_default is True
        and parameter.default is not None
        and not callable(parameter.default)
    ):
        text += f" *Default: {_cell(str(parameter.default))}.*"
    return f"| `{shown.replace('|', chr(92) + '|')}` | {text} |"


def _cell(text: str) -> str:
    return _marked(" ".join(text.split())).replace("|", "\\|")


def _marked(text: str) -> str:
    """Return prose with the options that it names as code."""
    return OPTION.sub(r"`\1`", text)


def _prose(text: str | None) -> str:
    """Return a help text as paragraphs; `\\b` marks of typer keep lines as they are, so these become code."""
    paragraphs = []
    for part in (text or "").replace("\x08\n", "\x08").split("\n\n"):
        kept = part.startswith("\x08")
        lines = [line for line in part.lstrip("\x08").splitlines() if line.strip()]
        code = "```text\n" + "\n".join(lines) + "\n```"
        paragraphs.append(code if kept else _marked(" ".join(line.strip() for line in lines)))
    return "\n\n".join(filter(None, paragraphs))
