"""One family of errors that the user can mend: what is wrong, where, and the remedy, in one line.

Anything else that escapes is a bug in netproof and keeps its traceback.
"""

from __future__ import annotations


class NetproofError(Exception):
    """Base of the family. `str(error)` is the one line that is shown.

    >>> str(NetproofError("no such file", file="a.onnx", remedy="check the path"))
    'a.onnx: no such file (check the path)'
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        place: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.place = place
        self.remedy = remedy

    def __str__(self) -> str:
        where = "".join(f"{part}: " for part in (self.file, self.place) if part)
        remedy = f" ({self.remedy})" if self.remedy else ""
        return " ".join(f"{where}{self.message}{remedy}".split())


class UsageError(NetproofError):
    """A command, option or argument that cannot be obeyed."""


def of_path(error: OSError) -> UsageError:
    """Say what is wrong with the file, folder or disk that an OSError is about."""
    name = error.filename.decode(errors="replace") if isinstance(error.filename, bytes) else error.filename
    return UsageError(
        str(error.strerror),
        file=None if name is None else str(name),
        remedy="check the path, its permissions and the room on the disk",
    )


class ModelError(NetproofError):
    """A network that cannot be read, or that is not what the file claims."""


class UnsupportedOp(ModelError):
    """An operator, or a form of one, that netproof does not bound."""

    SEE_ALL = "run `netproof inspect` for every unsupported node"

    def __init__(self, op: str, *, node: str, why: str, file: str | None = None, remedy: str | None = None) -> None:
        super().__init__(
            f"unsupported operator {op}: {why}",
            file=file,
            place=f"node {node!r}",
            remedy=remedy or self.SEE_ALL,
        )
        self.op = op
        self.node = node


class Unbounded(ModelError):
    """Values that nothing bounds on an input set: they overflow there, or a function may not be defined.

    A question about such a set is answered `unknown`, with this as the reason.
    """


class SpecError(NetproofError):
    """A property that is malformed, contradictory, or beyond what is supported."""

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
        remedy: str | None = None,
    ) -> None:
        place = None if line is None else f"line {line}" + ("" if column is None else f", column {column}")
        super().__init__(message, file=file, place=place, remedy=remedy)
        self.line = line
        self.column = column


class DeviceError(NetproofError):
    """A device that is not there, or that is too small."""


class OutOfMemory(DeviceError):
    """Memory that ran out."""

    def __init__(
        self,
        message: str = "out of memory, with as little at once as there can be",
        *,
        file: str | None = None,
        remedy: str = "use --device cpu, a larger GPU or a larger --memory",
    ) -> None:
        super().__init__(message, file=file, remedy=remedy)
