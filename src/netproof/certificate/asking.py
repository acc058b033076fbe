"""npcheck in a process of its own: its answer, and its progress as it comes."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

PROGRESS = "% of the certificate, "  # is in each of its lines that say where it is

Tell = Callable[[str], None]


def ask(
    certificate: Path, model: Path, spec: Path, seconds: float, tell: Tell | None
) -> subprocess.CompletedProcess[str]:
    """Run npcheck; subprocess.TimeoutExpired where it takes longer. tell: hears each line of its progress."""
    # -P: no file of the current folder is imported in place of npcheck's.
    options = ["-P", "-m", "npcheck", *([] if tell else ["--quiet"])]
    command = [sys.executable, *options, str(certificate), str(model), str(spec)]
    errors: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = process.stderr

        def listen() -> None:
            for line in lines:
                if tell and PROGRESS in line:
                    tell(line.rstrip("\n"))
                else:
                    errors.append(line)

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        try:
            code = process.wait(seconds)  # its answer is a few lines, which a pipe holds
        except BaseException:
            process.kill()
            raise
        finally:
            listener.join()
        return subprocess.CompletedProcess(command, code, process.stdout.read(), "".join(errors))
