"""The control groups of this process: limits hold for whole subtrees, so those of all ancestors count."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

PROC, SYS = Path("/proc"), Path("/sys/fs/cgroup")


@cache
def files(name: str, controller: str, mounts: tuple[str, ...], proc: Path = PROC, sys: Path = SYS) -> tuple[Path, ...]:
    """Return the files of a name that this process's control group of a controller has, and its ancestors.

    mounts: the folders that version 1 may have the controller in. Looked for once, since to look for those that are not
    there takes longer than to read the others. What they say may change; a process is taken to stay in its group, and
    its group to have the kinds of limits that it has.
    """
    return tuple(folder / name for folder in _folders(controller, mounts, proc, sys) if (folder / name).is_file())


def _folders(controller: str, mounts: tuple[str, ...], proc: Path, sys: Path) -> Iterator[Path]:
    """Yield that group and its ancestors, under version 2 and version 1 mounts."""
    for line in read(proc / "self" / "cgroup").splitlines():
        controllers, _, group = line.partition(":")[2].partition(":")
        if controllers == "":
            roots = [sys, sys / "unified"]
        elif controller in controllers.split(","):
            roots = [sys / mount for mount in mounts]
        else:
            continue
        parts = PurePosixPath(group).parts[1:]
        if ".." in parts:  # the group lies outside the namespace's root: only the root can be read
            parts = ()
        for root in roots:
            for depth in range(len(parts), -1, -1):
                yield root.joinpath(*parts[:depth])


def read(path: Path) -> str:
    """Return what a file of the kernel says; nothing where there is none."""
    try:
        return path.read_text()
    except OSError:
        return ""
