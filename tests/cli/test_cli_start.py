"""Starting is cheap: help and versions come without the heavy libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from ast import literal_eval
from pathlib import Path

from command import HERE, SOURCE, run_cold

from support.processes import HANG

HEAVY = ("torch", "onnx", "onnxruntime", "highspy", "numpy", "matplotlib", "jinja2")
COMMANDS = (
    *("verify", "robust", "bounds", "inspect", "bench", "report", "reproduce", "methods", "supports", "doctor", "demo"),
)


def output_of(code: str) -> str:
    """What a Python of its own prints."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def imported_after(code: str) -> set[str]:
    code += f"\nimport sys; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    return set(output_of(code).splitlines()[-1].split())


def commands_that_import(*commands: list[str]) -> dict[str, list[str]]:
    """By command what it has imported that is heavy, where it has; one process obeys them all."""
    code = f"""
import sys
from netproof.cli.app import run
found = {{}}
for command in {commands!r}:
    run(command)
    heavy = [name for name in {HEAVY!r} if name in sys.modules]
    if heavy:
        found[" ".join(command)] = heavy
    for name in heavy:
        del sys.modules[name]
print(repr(found))"""
    return literal_eval(output_of(code).splitlines()[-1])


def test_help_imports_nothing_heavy() -> None:
    assert commands_that_import(["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)) == {}


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert imported_after("import netproof; netproof.__version__, dir(netproof)") == set()


def test_public_names_have_homes() -> None:
    code = "import netproof; print([name for name in netproof.__all__ if getattr(netproof, name) is None])"
    assert output_of(code) == "[]\n"


def test_the_function_bounds_is_not_hidden_by_the_subpackage() -> None:
    code = (
        "import netproof, netproof.bounds.linear.interval; from netproof.bounds.linear import interval;"
        "assert callable(netproof.bounds), netproof.bounds"
    )
    imported_after(code)


def test_version(tmp_path: Path) -> None:
    from netproof import __version__

    done = run_cold("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{__version__}\n")


def test_no_command_shows_help_and_is_no_success(tmp_path: Path) -> None:
    done = run_cold(cwd=tmp_path)
    assert done.returncode == 2
    assert all(name in done.stdout for name in COMMANDS)


def test_the_supervisor_stays_light(folder: Path) -> None:
    """The parent must be able to answer while the child still imports."""
    code = (
        "import sys, os; from netproof.cli.app import run;"
        f"os.chdir({str(folder)!r}); run(['verify', 'm.onnx', 'p.vnnlib'])"
    )
    fake = f"import sys; sys.path.insert(0, {str(HERE / 'fake')!r}); import sitecustomize"
    assert imported_after(f"{fake}\n{code}") == set()


def test_an_image_is_read_without_the_engine() -> None:
    """So that a bad one is refused soon after the time was up, although the engine was not there in time."""
    code = "import netproof.model.onnx.declared, netproof.cli.robust.image"
    assert imported_after(code) == {"onnx", "numpy"}
