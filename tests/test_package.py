"""The wheel, as a stranger meets it: built from the source archive, installed elsewhere, and run."""

from __future__ import annotations

import ast
import email
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from netproof.report.page import EXPLORING, SCRIPTS

ROOT = Path(__file__).resolve().parents[1]
# Where the import name is not the name of the distribution.
DISTRIBUTIONS = {"PIL": "pillow", "google": "protobuf"}


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run without the variables that could lead back to the checkout."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing left over in the checkout gets in and nothing is left there."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    leftovers = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", source / "src", ignore=leftovers)
    # Without --wheel, the wheel is made from the source archive, which is thereby tested too.
    built = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", source / "dist", cwd=source)
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = (source / "dist").glob("*.whl")
    return path


@pytest.fixture(scope="module")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a new environment that holds the wheel and borrows only its dependencies.

    The line in a .pth file lends this environment's packages without running their own .pth files, which
    is how an editable netproof would get in; the wheel's own copy comes first in any case.
    """
    folder = tmp_path_factory.mktemp("clean") / "env"
    made = run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    assert made.returncode == 0, made.stderr
    python = folder / "bin" / "python"
    install = ("install", "--quiet", "--no-deps", "--no-index", wheel)
    installed = run(sys.executable, "-m", "pip", "--python", python, *install, cwd=folder.parent)
    assert installed.returncode == 0, installed.stderr
    paths = {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}
    (own,) = (folder / "lib").glob("python*/site-packages")
    (own / "dependencies.pth").write_text("\n".join(sorted(paths)) + "\n", encoding="utf-8")
    return folder / "bin"


def test_wheel_holds_what_it_should(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = ROOT / "src" / "netproof"
    code = {f"netproof/{path.relative_to(package)}" for path in package.rglob("*.py")}
    data = {
        f"netproof/{path.relative_to(package)}" for path in (package / "demo" / "data").rglob("*") if path.is_file()
    }
    assert data, "the demo's data is missing from the checkout"
    page = {f"netproof/report/assets/{name}" for name in ("page.html", "page.css", *SCRIPTS, *EXPLORING)}
    assert code | data | {"netproof/py.typed", *page} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_every_import_is_declared(wheel: Path) -> None:
    """The clean environment borrows its packages, so it cannot notice a forgotten dependency; this does."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    required = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    declared = {re.split(r"[^\w.-]", line, maxsplit=1)[0].lower() for line in required}
    imported = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                imported.add(node.module.split(".")[0])
    # npcheck is on no index under our name: naming it would install a stranger's; what needs it says so in one line.
    third_party = imported - sys.stdlib_module_names - {"netproof", "npcheck"}
    assert {DISTRIBUTIONS.get(name, name).lower() for name in third_party} <= declared


def test_demo_runs_from_the_wheel(clean: Path, tmp_path: Path) -> None:
    where = run(clean / "python", "-c", "import netproof; print(netproof.__file__)", cwd=tmp_path)
    assert where.returncode == 0, where.stderr
    assert Path(where.stdout.strip()).is_relative_to(clean.parent), "netproof did not come from the wheel"

    demo = run(clean / "netproof", "demo", cwd=tmp_path)
    assert demo.returncode == 0, demo.stdout + demo.stderr
    said = (demo.stdout + demo.stderr).lower()
    assert re.search(r"\b[1-9]\d* proved\b", said), said
    assert re.search(r"\b[1-9]\d* broken\b", said), said
    pictures = list((tmp_path / "netproof-demo" / "pictures").glob("*.png"))
    assert pictures, "no picture of a counterexample was drawn"
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)
