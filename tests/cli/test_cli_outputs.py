"""Outputs by name, through the command and the engine itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from command import REAL, run_cold

from model.onnx_models import small_net


def test_outputs_by_name(tmp_path: Path) -> None:
    model = small_net().save(tmp_path / "m.onnx")
    lines = [f"(declare-const X_{i} Real)\n(assert (>= X_{i} 0))\n(assert (<= X_{i} 1))" for i in range(4)]
    lines += [f"(declare-const Y_{i} Real)" for i in range(5)]
    (tmp_path / "p.vnnlib").write_text("\n".join([*lines, "(assert (<= Y_4 -0.1))"]))
    done = run_cold("verify", "m.onnx", "p.vnnlib", "--output", "r", engine=REAL, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "unsat\n"), done.stderr
    done = run_cold("bounds", "m.onnx", "p.vnnlib", "--output", "r", engine=REAL, cwd=tmp_path)
    assert [line.split()[0] for line in done.stdout.splitlines()] == [f"Y_{i}" for i in range(5)], done.stderr
    done = run_cold("inspect", model.name, "--output", "h", "--output", "y", engine=REAL, cwd=tmp_path)
    assert "output     8: h 1x5, y 1x3" in done.stdout
    done = run_cold("verify", "m.onnx", "p.vnnlib", "--output", "q", engine=REAL, cwd=tmp_path)
    assert done.returncode == 2
    assert "it has no tensor 'q' (name an output ('y') or a value inside" in done.stderr
    np.save(tmp_path / "x.npy", np.ones((1, 4), dtype=np.float32))
    asked = ("--image", "x.npy", "--label", "4", "--eps", "0", "--output", "h")
    done = run_cold("robust", "m.onnx", *asked, engine=REAL, cwd=tmp_path)
    assert done.stdout.splitlines()[0] in ("sat", "unsat"), done.stderr
