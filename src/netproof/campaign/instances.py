"""The instances of VNN-COMP folders, and what is known of them.

A folder holds `instances.csv`: lines of `onnx,vnnlib,timeout` with paths relative to it. A header is not needed; with
one that names the columns `onnx` and `vnnlib`, others may stand between them, and `timeout` and `truth` (or `expected`)
may be left out. Beside it there may be `known.csv` with the columns `onnx`, `vnnlib` and `truth`. Any file may be
gzipped (`NAME.gz` for `NAME`). For `onnx` there may be a list of networks, "[('f', 'f.onnx'), ('g', 'g.onnx')]".
"""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from netproof.core.files import find_file, read_bounded, unpack, well_formed
from netproof.core.network_list import networks_of
from netproof.errors import UsageError
from netproof.problem.decimal import decimal

HOME = "NETPROOF_BENCHMARKS"  # the folder in which folders are looked for by name
INSTANCES, KNOWN = "instances.csv", "known.csv"
TRUTHS = ("sat", "unsat")


@dataclass(frozen=True)
class Instance:
    """One question: a network, a property, a time limit, and the answer where it is known."""

    benchmark: str
    onnx: Path  # a name without .gz may stand for the packed file beside it
    vnnlib: Path
    timeout: float | None  # seconds; None: no limit
    truth: str | None  # "sat", "unsat", or None where it is not known
    folder: Path | None = None  # where instances.csv is
    told_by: str = ""  # the source of the truth: "known.csv", "instances.csv" or "file name"; or a contradiction
    networks: tuple[tuple[str, Path], ...] = ()  # by name, where the property is about several; `onnx` is the first

    @property
    def names(self) -> tuple[str, str]:
        """Return model and property as instances.csv names them; of several networks each as NAME=PATH."""
        models = [f"{name}={_within(path, self.folder)}" for name, path in self.networks]
        return " ".join(models) or _within(self.onnx, self.folder), _within(self.vnnlib, self.folder)

    def __str__(self) -> str:
        return f"{self.benchmark}: {' '.join(self.names)}"


def _within(path: Path, folder: Path | None) -> str:
    inside = folder is not None and path.is_relative_to(folder)
    return (path.relative_to(folder) if inside and folder is not None else path).as_posix()


def find_folders(names: Iterable[str | Path]) -> list[Path]:
    """Find the folders with an instances.csv that are meant: paths, or names in $NETPROOF_BENCHMARKS.

    A folder of such folders stands for them all.
    """
    found = [folder for name in names for folder in _find(str(name), os.environ.get(HOME))]
    return list(dict.fromkeys(found))


def _find(name: str, home: str | None) -> list[Path]:
    for place in [Path(name), *([Path(home) / name] if home else [])] if name else []:
        if find_file(place / INSTANCES):
            return [place.resolve()]
        inner = sorted(place.iterdir()) if place.is_dir() else []
        found = [folder.resolve() for folder in inner if find_file(folder / INSTANCES)]
        if found:
            return found
    tried = f", nor in {HOME}={home}" if home else ""
    what = "no instances.csv in this folder" if name and Path(name).is_dir() else "no such folder"
    by_name = "" if home else f", or set {HOME} to the folder in which it is"
    raise UsageError(f"{what}{tried}", file=name, remedy=f"give a folder of VNN-COMP instances{by_name}")


def read_folders(names: Iterable[str | Path], first: int | None = None) -> list[Instance]:
    """Read the (first) instances of every folder that is meant; folders of one name get their parents' before it."""
    folders = find_folders(names)
    count = Counter(benchmark_name(folder) for folder in folders)
    instances: list[Instance] = []
    for folder in folders:
        found = read_folder(folder)[:first]
        if count[benchmark_name(folder)] > 1:
            longer = well_formed(f"{folder.parent.name}-{benchmark_name(folder)}")
            found = [dataclasses.replace(instance, benchmark=longer) for instance in found]
        instances += found
    return instances


def benchmark_name(folder: Path) -> str:
    """Return the folder's name; where that is only a version (`acasxu/2.0`), with its parent's before it."""
    folder = folder.resolve()
    version = re.fullmatch(r"v?[0-9]+(\.[0-9]+)*", folder.name)
    return well_formed(f"{folder.parent.name}-{folder.name}" if version else folder.name)


def read_folder(folder: str | Path) -> list[Instance]:
    """Read the instances of one folder, in the order of its instances.csv."""
    folder = Path(folder).resolve()
    file = folder / INSTANCES
    if not find_file(file):
        raise UsageError("no instances.csv in this folder", file=str(folder), remedy="give a folder of instances")
    known, benchmark = _read_known(folder / KNOWN), benchmark_name(folder)
    columns: dict[str, int] = {"onnx": 0, "vnnlib": 1, "timeout": 2}
    instances: list[Instance] = []
    for line, row in read_rows(file):
        cells = [cell.strip() for cell in row]
        if not instances and {"onnx", "vnnlib"} <= set(cells):
            columns = {name: place for place, name in enumerate(cells)}
            continue
        instances.append(_instance(folder, benchmark, columns, cells, known, line))
    if not instances:
        raise UsageError("no instances", file=str(file), remedy="add lines of onnx,vnnlib,timeout")
    return instances


def _instance(
    folder: Path,
    benchmark: str,
    columns: dict[str, int],
    cells: Sequence[str],
    known: dict[tuple[str, str], set[str]],
    line: int,
) -> Instance:
    def wrong(message: str) -> UsageError:
        remedy = "a line is onnx,vnnlib,timeout, as in onnx/a.onnx,vnnlib/p.vnnlib,60"
        return UsageError(message, file=str(folder / INSTANCES), place=f"line {line}", remedy=remedy)

    if len(cells) <= max(columns.values()):
        raise wrong(f"{len(cells)} columns, not {max(columns.values()) + 1}")
    cell = {name: cells[place] for name, place in columns.items()}
    onnx, vnnlib = cell["onnx"], cell["vnnlib"]
    try:
        written = networks_of(onnx)
    except ValueError as error:
        raise wrong(str(error)) from None
    networks, onnx = [(name, path) for name, path in written if name is not None], written[0][1]
    if not onnx or not vnnlib:
        raise wrong("no model" if not onnx else "no property")
    timeout = None
    if "timeout" in cell:
        timeout = _positive(cell["timeout"])
        if timeout is None:
            raise wrong(f"{cell['timeout']!r} is not a time limit in seconds")
    own = {cell[name] for name in ("truth", "expected") if name in cell}
    told = (
        (KNOWN, known.get((_plain(cell["onnx"]), _plain(vnnlib)), set())),
        (INSTANCES, own),
        ("file name", {Path(name).name.split("_")[0] for name in (onnx, vnnlib)}),
    )
    truth, told_by = _truth(told)
    models = tuple((name, folder / path) for name, path in networks)
    return Instance(benchmark, folder / onnx, folder / vnnlib, timeout, truth, folder, told_by, models)


def _truth(told: Sequence[tuple[str, set[str]]]) -> tuple[str | None, str]:
    """Return the truth that all sources agree on, and the first source; None where they contradict each other."""
    said = [(who, word) for who, words in told for word in TRUTHS if word in words]
    if len({word for _, word in said}) > 1:
        return None, "contradictory: " + ", ".join(f"{word} by {who}" for who, word in said)
    return (said[0][1], said[0][0]) if said else (None, "")


def _positive(text: str) -> float | None:
    """Read a decimal number above zero, in ASCII digits; None for anything else."""
    try:
        value = float(decimal(text) or 0)
    except OverflowError:
        return None
    return value if value > 0 else None


def _plain(name: str) -> str:
    """Normalise a path as written, so that one file has one name; `.gz` does not count."""
    return Path(name).as_posix().removesuffix(".gz")


def _read_known(file: Path) -> dict[tuple[str, str], set[str]]:
    """Read known.csv: by (onnx, vnnlib), every truth that it has for them; a `-` or nothing is no truth."""
    known: dict[tuple[str, str], set[str]] = defaultdict(set)
    if not find_file(file):
        return known
    rows = read_rows(file)
    header = [cell.strip() for cell in rows[0][1]] if rows else []
    if not {"onnx", "vnnlib", "truth"} <= set(header):
        raise UsageError("no columns onnx, vnnlib and truth", file=str(file), remedy="name them in its first line")
    for _, row in rows[1:]:
        cell = dict(zip(header, (cell.strip() for cell in row), strict=False))
        if cell.get("truth") in TRUTHS:
            known[_plain(cell["onnx"]), _plain(cell["vnnlib"])].add(cell["truth"])
    return known


def read_rows(file: Path) -> list[tuple[int, list[str]]]:
    """Read (line, cells) of every line that is not empty."""
    try:
        reader = csv.reader(io.StringIO(read_bytes(file).decode("utf-8-sig"), newline=""), strict=True)
        return [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"not a CSV file: {error}", file=str(file), remedy="save it as CSV in UTF-8") from error


def read_bytes(path: Path) -> bytes:
    """Read the file's content, unpacked where only NAME.gz is there."""
    try:
        file = find_file(path) or path
        return read_bounded(file) if file == path else unpack(read_bounded(file))
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"cannot be read: {error}", file=str(path), remedy="check the file") from error
