"""Help shows what people type, in groups and with examples; and the shell completes it."""

from __future__ import annotations

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
