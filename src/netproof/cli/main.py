"""The entry point. It imports very little itself, so that Ctrl-C is handled almost from the start."""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn, TextIO


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Obey a command line, then leave without teardown: a thread may still be hashing a file.

    Without `arguments` this is the program itself, and its clock starts with the process.
    """
    entered = time.monotonic()
    _open_streams()
    interrupts = _noted_interrupts()
    # Threads that wait must not spin: on a machine with other work, spinning makes two threads slower than one.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        from netproof.cli.process.start_time import start_clock

        start_clock(entered, whole_process=arguments is None)
        from netproof.cli.app import report_bug, run

        try:
            code = run(sys.argv[1:] if arguments is None else arguments)
        except Exception as error:
            if interrupts:  # in the middle of an import, say: what fails then is no fault
                raise KeyboardInterrupt from error
            code = report_bug(error)
        sys.stdout.flush()
        sys.stderr.flush()
    except KeyboardInterrupt:
        sys.stderr.write("netproof: interrupted\n")
        code = 130
    os._exit(code)


def _noted_interrupts() -> list[int]:
    """Note every Ctrl-C beside raising it: a library that is being imported may swallow one."""
    noted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not ignored, as under nohup
        signal.signal(signal.SIGINT, note)
    return noted


def _open_streams() -> None:
    """Open the null device as standard streams of a process that was started without them, as by cron.

    Else the next file that is opened would take the number of one, and be written to.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    sys.stdin = sys.stdin or open(0)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w")  # noqa: SIM115
    _take_all_characters(sys.stdout)


def _take_all_characters(stream: TextIO) -> None:
    """Write a path as it is, whatever its bytes, and escape the characters that another encoding does not have."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="surrogateescape" if stream.encoding.lower() == "utf-8" else "backslashreplace")
