"""What is written for machines: the JSON document, the results file, the witness. No torch, no numpy here."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netproof.cli.exits import EXIT_USAGE
from netproof.core.files import beside, is_special, sha256, well_formed, write_whole
from netproof.errors import NetproofError, UsageError

HASH_WAIT = 0.2  # seconds to wait for hashes: a late answer is worse than a missing hash
EXTERNAL_WAIT = 10.0  # seconds more where weights are in other files: an answer must say for which weights it is


def to_json(document: Mapping[str, Any]) -> str:
    """Write JSON; infinities and NaN, which it does not have, become null."""
    return json.dumps(_finite(document), indent=2, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], names: int) -> str:
    """Align columns: the first `names` to the left, figures to the right."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = (
        "  ".join(cell.ljust(width) if i < names else cell.rjust(width) for i, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(row, widths, strict=True)) for row in (header, *rows))
    )
    return "\n".join(line.rstrip() for line in lines) + "\n"


class Hashes:
    """SHA-256 of files, computed beside the work; a file that is gone or not yet read has none.

    The first of them is the model, which may need further files beside it.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._found: dict[str, str] = {}
        self.external: list[dict[str, str]] | None = None  # the files beside the model that its weights come from
        self._patience = 0.0
        self._thread = threading.Thread(target=self._run, args=(tuple(paths),), daemon=True)
        self._thread.start()

    def _run(self, paths: tuple[str, ...]) -> None:
        from netproof.model.origin.external import external_files, may_have_external

        with contextlib.suppress(NetproofError):  # what is wrong with the model, the work says
            more = may_have_external(Path(paths[0]))
            self._patience = EXTERNAL_WAIT if more else 0.0
            self.external = [] if not more else None
        for path in paths:
            with contextlib.suppress(OSError):
                self._found[path] = sha256(path)
        with contextlib.suppress(NetproofError):
            if self.external is None:
                self.external = [dataclasses.asdict(file) for file in external_files(Path(paths[0]))]

    def of(self, path: str) -> dict[str, str | None]:
        self._thread.join(timeout=HASH_WAIT)
        self._thread.join(timeout=self._patience)
        return {"path": path, "sha256": self._found.get(path)}


STDOUT = "-"  # as the name of a file
TENSOR = ".pb"  # how the name of a file ends that holds a tensor as ONNX does


@dataclass(frozen=True)
class Outputs:
    """The files that a command was asked to write, by option. `--json -` means that stdout is the JSON and no more."""

    paths: Mapping[str, str | None] = field(default_factory=dict)
    _failed: list[UsageError] = field(default_factory=list)
    words: Mapping[str, str] = field(default_factory=dict)  # what stdout says in place of some verdicts
    folder: str | None = None  # for the tensors of a witness, which stdout then leaves out

    def check(self, inputs: Iterable[str]) -> None:
        """Find out before the work, not after it, that a result could not be written, or would replace an input.

        inputs: all files that the command reads; those beside a model are found here.
        """
        if self.folder is None and all(path is None for path in self.paths.values()):
            return
        taken = {os.path.realpath(path): path for path in _all_read(inputs, self._replaced)}
        if self.folder is not None:
            _make_folder(self.folder)
            _check_folder(self.folder, taken)
        for option, path in self.paths.items():
            if path is None or (path, option) == (STDOUT, "--json"):
                continue
            if path == STDOUT:
                raise UsageError(
                    f"{option} -: stdout has it already", remedy="leave it out, or write ./- for a file of that name"
                )
            real = os.path.realpath(path)
            if real in taken and not is_special(Path(real)):
                raise UsageError(
                    f"{option} would overwrite {taken[real]}", file=path, remedy="give it a name of its own"
                )
            taken[real] = path
            _check_writable(option, path, real)

    @property
    def _replaced(self) -> bool:
        """Say whether any file that is there already would be replaced: few calls do, so few look any further."""
        written = [path for path in self.paths.values() if path is not None]
        return self.folder is not None or any(os.path.isfile(path) for path in written)

    def deliver(self, contents: Mapping[str, str | bytes | None], text: str) -> list[str]:
        """Write every file that there is something for, then stdout; return the options whose files were written.

        A file that cannot be written stops no other: it is reported last, and makes the exit code that of an error.
        """
        written = [option for option, content in contents.items() if self._write(option, content)]
        verdict, *rest = text.split("\n", 1)
        said = "\n".join([self.words.get(verdict, verdict), *(rest if self.folder is None else [""])])
        on_stdout = contents.get("--json") if self.paths.get("--json") == STDOUT else said
        try:
            print_out(str(on_stdout))
        finally:
            for error in self._failed:
                print_err(f"netproof: error: {error}")
        return written

    def write_again(self, option: str, content: str) -> None:
        """Write a file once more, with what was not known before."""
        if not self._write(option, content):
            print_err(f"netproof: error: {self._failed[-1]}")

    def add_files(self, contents: Mapping[str, bytes]) -> None:
        """Write files into the folder."""
        for name, content in contents.items():
            try:
                write_whole(Path(self.folder or ".") / name, content)
            except OSError as error:
                wrong = f"cannot write {name}: {error.strerror or error}"
                self._failed.append(UsageError(wrong, file=self.folder, remedy="free the disk or go elsewhere"))

    def miss(self, option: str, why: str) -> None:
        """Note that there is nothing for a file that was asked for."""
        path = self.paths.get(option)
        if path is not None:
            remedy = "the answer stands; give it more time, or use --witness"
            self._failed.append(UsageError(f"{option}: {why}", file=path, remedy=remedy))

    def exit_code(self, otherwise: int) -> int:
        return EXIT_USAGE if self._failed else otherwise

    def _write(self, option: str, content: str | bytes | None) -> bool:
        path = self.paths.get(option)
        if path is None or path == STDOUT or content is None:
            return False
        try:
            write_whole(
                Path(os.path.realpath(path)), well_formed(content).encode() if isinstance(content, str) else content
            )
        except OSError as error:
            self._failed.append(
                UsageError(
                    f"cannot write {option}: {error.strerror or error}",
                    file=path,
                    remedy="free the disk or go elsewhere",
                )
            )
            return False
        return True


def _all_read(inputs: Iterable[str], closely: bool) -> Iterator[str]:
    """Yield the files, and, where one looks closely, those that hold weights of the models among them."""
    from netproof.model.origin.external import external_paths

    for path in inputs:
        yield path
        if closely and path.lower().removesuffix(".gz").endswith(".onnx"):
            with contextlib.suppress(NetproofError):  # what is wrong with the model, the work says
                yield from map(str, external_paths(Path(path)))


def _check_folder(folder: str, taken: Mapping[str, str]) -> None:
    """Refuse a folder for tensors where one of them might replace an input."""
    real = os.path.realpath(folder)
    for path, name in taken.items():
        if os.path.dirname(path) == real and path.endswith(TENSOR):
            raise UsageError(f"a tensor might overwrite {name}", file=folder, remedy="give a folder of its own")


def _make_folder(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot be made: {error.strerror or error}", file=folder, remedy="give another folder"
        ) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError("cannot be written to", file=folder, remedy="give another folder")


def _check_writable(option: str, path: str, real: str) -> None:
    folder = os.path.dirname(real)
    if os.path.isdir(real):
        raise UsageError(f"{option} names a directory", file=path, remedy="give the name of a file in it")
    if not os.path.isdir(folder):
        raise UsageError(
            f"{option}: there is no directory {os.path.dirname(path) or folder}",
            file=path,
            remedy="make it first",
        )
    if is_special(Path(real)):
        return
    try:
        with contextlib.suppress(FileNotFoundError):
            os.stat(real)  # a name may be too long, which that of the probe is not
        probe = beside(Path(real))
        probe.touch(exist_ok=False)
        probe.unlink()
        if os.path.exists(real) and not os.access(real, os.W_OK):
            raise PermissionError(13, "the file is read-only")
    except OSError as error:
        raise UsageError(
            f"{option} cannot be written: {error.strerror or error}",
            file=path,
            remedy="choose a writable place",
        ) from error


def print_out(text: str) -> None:
    """Write to stdout, where a reader that has gone (`| head -1`) is no error."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise UsageError(f"cannot write to stdout: {error.strerror or error}", remedy="free the disk") from error


def print_err(text: str) -> None:
    """Write to stderr, for people; that no one reads it is no error."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
