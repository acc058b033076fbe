"""What every reproduction leaves in its folder: NAME.csv, NAME.png, NAME.pdf and NAME.html."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netproof._version import __version__
from netproof.campaign.names import file_name
from netproof.core.machine.versions import build
from netproof.errors import UsageError
from netproof.paper.tables.drawing import Panel, write_panels
from netproof.report import files
from netproof.report.page import Picture, Section, page

PAPER = (
    "Kaidi Xu, Huan Zhang, Shiqi Wang, Yihan Wang, Suman Jana, Xue Lin, Cho-Jui Hsieh: Fast and Complete: Enabling"
    " Complete Neural Network Verification with Rapid and Massively Parallel Incomplete Verifiers. ICLR 2021,"
    " arXiv:2011.13824"
)


@dataclass(frozen=True)
class Output:
    """The folder that `--out` named, made when it is not there."""

    folder: Path
    name: str

    @classmethod
    def at(cls, folder: str | Path, name: str) -> Output:
        output = cls(Path(folder), name)
        with output._writable():
            output.folder.mkdir(parents=True, exist_ok=True)
            probe = output.folder / f".{name}.probe"
            probe.write_bytes(b"")
            probe.unlink()
        return output

    @contextlib.contextmanager
    def _writable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            what = f"--out cannot be written: {error.strerror or error}"
            raise UsageError(what, file=str(self.folder), remedy="choose a writable folder") from error

    def path(self, more: str = "") -> Path:
        """Return FOLDER/NAME or FOLDER/NAME-MORE, without a suffix."""
        return self.folder / (f"{self.name}-{file_name(more)}" if more else self.name)

    def kept(self, *asked: Any) -> Path:
        """Return where the answer to one question is kept, so that a rerun of the same build goes on from there."""
        key = json.dumps([*asked, build()])
        return self.folder / f"{self.name}-kept" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"

    def csv(self, header: Sequence[str], rows: Iterable[Sequence[Any]], more: str = "") -> Path:
        with self._writable():
            return files.write_csv(
                Path(f"{self.path(more)}.csv"), [tuple(header), *([cell(value) for value in row] for row in rows)]
            )

    def panels(self, panels: Sequence[Panel], more: str = "", columns: int = 2) -> list[Picture]:
        with self._writable():
            return write_panels(panels, self.path(more), columns=columns)

    def page(self, title: str, sections: Sequence[Section], text: str) -> Path:
        """Write the page, which always says whose numbers the paper's are; return its path."""
        source = Section("Sources", items=[f"paper: {PAPER}", f"ours: netproof {__version__}"])
        with self._writable():
            return files.write_text(Path(f"{self.path()}.html"), page(title, [*sections, source], text=text))


def read_kept(path: Path) -> dict[str, Any] | None:
    """Return what an earlier call kept there; None where it kept nothing."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def keep(path: Path, values: dict[str, Any]) -> None:
    """Keep an answer, all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_text(path, json.dumps(values))


def cell(value: Any) -> Any:
    """Return a figure as CSV has it: enough digits to compute with, nothing where there is none."""
    if value is None:
        return ""
    return f"{value:.10g}" if isinstance(value, float) else value


def shown(value: float | None, digits: int = 2) -> str:
    """Return a figure as a page has it."""
    return "–" if value is None else f"{value:.{digits}f}"
