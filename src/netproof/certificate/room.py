"""A hidden folder for what a run has under way: hints, files of the question, half a certificate.

It lies beside the certificates, so that a finished file gets its name at once. It goes with the run; what a run that
was killed has left behind, the next one in the same folder removes.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import IO

from netproof.core.files import is_special
from netproof.errors import UsageError, of_path

PREFIX = ".netproof-certificate-"
LOCK = "lock"  # held while the run lives: the system lets go of it however the run ends


class Room:
    """A folder that only one run has."""

    def __init__(self, path: Path, lock: IO[str]) -> None:
        self.path, self._lock = path, lock

    @classmethod
    def beside(cls, path: Path) -> Room:
        """Make one in the folder of a certificate; UsageError where that cannot be."""
        folder = path.parent
        if not folder.is_dir():
            raise UsageError(f"there is no folder {folder}", file=str(path), remedy="make it, or name another")
        if path.is_dir() or is_special(path):  # which no file can take the place of
            raise UsageError("it is no regular file", file=str(path), remedy="give the name of a file")
        return cls.within(folder)

    @classmethod
    def within(cls, folder: Path) -> Room:
        """Make one in a folder, after those that no run has any more are removed."""
        try:
            _sweep(folder)
            while True:
                made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=folder))
                with contextlib.suppress(FileNotFoundError):  # another run took it for one that is left behind
                    lock = (made / LOCK).open("w")
                    if _locked(lock) and (made / LOCK).exists():
                        return cls(made, lock)
        except OSError as error:
            raise of_path(error) from None

    def close(self) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _sweep(folder: Path) -> None:
    """Remove the folders of runs that are gone."""
    for left in folder.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            left.rmdir()  # its run was killed as it began
        with contextlib.suppress(OSError), (left / LOCK).open("a") as lock:
            if _locked(lock):
                shutil.rmtree(left, ignore_errors=True)


def _locked(file: IO[str]) -> bool:
    """Say whether no other run has the lock; then this one has it until the file is closed."""
    try:
        import fcntl
    except ImportError:  # Windows
        return file.mode == "w"  # nothing tells whether a run is gone: its folder stays
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
