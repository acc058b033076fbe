"""Help shows what people type, in groups and with examples; and the shell completes it."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from command import run

from netproof.cli import app
from netproof.cli.show.help import EXAMPLES

NAMES = sorted(command.callback.__name__ for command in app.app.registered_commands if command.callback)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert app.run([*arguments, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_help_has_no_types_of_flags_and_files(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = shown(capsys, name)
    assert not re.search(r"<\w+|\{", text), text
    for example in EXAMPLES.get(name, ()):
        assert example in " ".join(text.split())
        words = example.split()
        assert words[:2] == ["netproof", name]
        for option in (word for word in words if word.startswith("--")):
            assert option in text


@pytest.mark.parametrize("name", NAMES)
def test_help_breaks_lines_for_the_terminal_alone(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every line of a paragraph but the last has no room for the next word."""
    monkeypatch.setenv("COLUMNS", "100")
    about = shown(capsys, name).partition("╭")[0].splitlines()
    for line, after in itertools.pairwise(line.strip() for line in about):
        if line and after:
            assert len(line) + 1 + len(after.split()[0]) > 96, (line, after)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("bench set --out", "Option '--out' requires an argument (see `netproof bench --help`)"),
        (
            "verify m.onnx --timeout abc",
            "'--timeout' / '-t': not a number (write one such as 2.5) (see `netproof verify --help`)",
        ),
        (
            "verify m.onnx --seed 1.5",
            "'--seed': not a whole number (write one such as 3) (see `netproof verify --help`)",
        ),
        ("verify m.onnx --zzz", "No such option: --zzz (see `netproof verify --help`)"),
    ],
)
def test_a_slip_names_the_help_of_its_command(typed: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(typed.split()) == 2
    assert capsys.readouterr().err.strip().endswith(said)


def test_commands_from_elsewhere_look_alike(capsys: pytest.CaptureFixture[str]) -> None:
    assert "<" not in shown(capsys, "reproduce", "table1")


def test_options_stand_in_groups(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = shown(capsys, "robust")
    groups = re.findall(r"─ (\w+) ─", text)
    assert groups == ["Arguments", "Options", "Image", "Search", "Output"]
    assert "Usage: netproof robust MODEL.onnx [OPTIONS]" in text


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("netproof ro", {"robust"}),
        ("netproof verify --pic", {"--picture"}),
        ("netproof methods lirpa-t", {"lirpa-tight"}),
    ],
)
def test_the_shell_completes(typed: str, offered: set[str], tmp_path: Path) -> None:
    words = str(len(typed.split()) - 1)
    done = run(cwd=tmp_path, _NETPROOF_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=words)
    assert set(done.stdout.split()) == offered, done.stderr
