"""Results of other verifiers, read from CSV as VNN-COMP keeps them, beside those of a campaign.

Lines are `category,onnx,vnnlib,prepared,result,seconds`, without a header; with one, the columns may come in any order
and under the names in NAMES. An instance is recognised by the names of its two files and, where there is one, the
category. A rival's answer is its own claim: nothing was replayed here.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from netproof.campaign.instances import read_rows
from netproof.campaign.store import Result
from netproof.campaign.summary import Run
from netproof.errors import UsageError

PLACES = {"category": 0, "onnx": 1, "vnnlib": 2, "result": 4, "seconds": 5}
NAMES = {
    "category": ("category", "benchmark"),
    "onnx": ("onnx", "network", "model"),
    "vnnlib": ("vnnlib", "property", "spec"),
    "result": ("result", "verdict", "status"),
    "seconds": ("seconds", "time", "runtime", "total"),
}
WORDS = {
    **dict.fromkeys(("unsat", "holds", "verified", "safe"), "unsat"),
    **dict.fromkeys(("sat", "violated", "falsified", "unsafe"), "sat"),
    **dict.fromkeys(("timeout", "run_instance_timeout", "timed out"), "timeout"),
    **dict.fromkeys(("unknown", "no_result_in_file", ""), "unknown"),
}
FAILED = ("error", "prepare_instance", "crash", "unsupported")  # how the words for other failures begin


@dataclass(frozen=True)
class Rival:
    """What one rival's file says of the instances of a campaign."""

    name: str
    file: str
    runs: tuple[Run, ...]
    rows: int  # of the file

    @property
    def said(self) -> str:
        """Say how much of the file is used."""
        left = self.rows - len(self.runs)
        words = f"{self.name}: {len(self.runs)} of its {self.rows} results are of instances of this campaign"
        return f"{words}; {left} are left out" if left else words


def read_rivals(given: Iterable[str], runs: Sequence[Run]) -> list[Rival]:
    """Read every `NAME=results.csv`; runs: those of the campaign, whose instances are looked for."""
    found: list[Rival] = []
    for text in given:
        name, file = split_rival(text)
        if name in {run.label for run in runs} | {rival.name for rival in found}:
            raise UsageError(f"--rival {text}: there is a method {name!r} already", remedy="give it another name")
        found.append(_read(name, file, runs))
    return found


def split_rival(text: str) -> tuple[str, Path]:
    """Read NAME=results.csv."""
    name, equals, file = (part.strip() for part in text.partition("="))
    if not (name and equals and file):
        raise UsageError(f"--rival {text}: no name or no file", remedy="give NAME=results.csv")
    return name, Path(file)


def _read(name: str, file: Path, runs: Sequence[Run]) -> Rival:
    instances = _Instances(runs)
    rows = read_rows(file)
    columns: Mapping[str, int] = PLACES
    if rows and (named := _header(rows[0][1])):
        columns, rows = named, rows[1:]
    kept: dict[tuple[str, str, str], Run] = {}
    for line, cells in rows:
        cell = _cells(cells, columns, file, line)
        example = instances.find(cell.get("category"), cell["onnx"], cell["vnnlib"])
        verdict, seconds = _verdict(cell["result"], file, line), _seconds(cell["seconds"], file, line)
        if example is not None:
            kept[example.instance] = Run(name, _claimed(name, example, verdict, seconds), rival=True)
    if not kept:
        raise UsageError(
            f"--rival {name}: none of its {len(rows)} results is of an instance of this campaign",
            file=str(file),
            remedy="lines are category,onnx,vnnlib,prepared,result,seconds with the files' names as in instances.csv",
        )
    return Rival(name, str(file), tuple(kept.values()), len(rows))


def _header(cells: Sequence[str]) -> dict[str, int] | None:
    """Return the columns by what they are, if this line names them."""
    words = [cell.strip().lower() for cell in cells]
    places = {what: next((words.index(n) for n in names if n in words), None) for what, names in NAMES.items()}
    needed = {what: place for what, place in places.items() if place is not None}
    return needed if set(NAMES) - set(needed) <= {"category"} else None


def _cells(cells: Sequence[str], columns: Mapping[str, int], file: Path, line: int) -> dict[str, str]:
    if len(cells) <= max(columns.values()):
        raise UsageError(
            f"{len(cells)} columns, not {max(columns.values()) + 1}",
            file=str(file),
            place=f"line {line}",
            remedy="a line is category,onnx,vnnlib,prepared,result,seconds",
        )
    return {what: cells[place].strip() for what, place in columns.items()}


def _verdict(word: str, file: Path, line: int) -> str:
    word = word.lower()
    if word in WORDS:
        return WORDS[word]
    if word.startswith(FAILED):
        return "error"
    remedy = "use sat, unsat, unknown, timeout or error"
    raise UsageError(f"{word!r} is not a result", file=str(file), place=f"line {line}", remedy=remedy)


def _seconds(text: str, file: Path, line: int) -> float:
    try:
        value = float(text or 0)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        remedy = "give a number that is not negative"
        raise UsageError(f"{text!r} is not a number of seconds", file=str(file), place=f"line {line}", remedy=remedy)
    return value


class _Instances:
    """The instances of a campaign, found by the names of their files."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._by: dict[tuple[str, str], dict[tuple[str, str, str], Result]] = defaultdict(dict)
        for run in runs:
            result = run.result
            self._by[_base(result.onnx), _base(result.vnnlib)].setdefault(result.instance, result)

    def find(self, category: str | None, onnx: str, vnnlib: str) -> Result | None:
        """Return a run of the instance; None where there is none, or several that the names do not tell apart."""
        found = list(self._by.get((_base(onnx), _base(vnnlib)), {}).values())
        if category:
            found = [one for one in found if _alike(one.benchmark, category)]
        if len(found) > 1:  # folders tell them apart, or the category to the letter
            near = Counter({i: _common(one.onnx, onnx) + _common(one.vnnlib, vnnlib) for i, one in enumerate(found)})
            near.update({i: 100 for i, one in enumerate(found) if one.benchmark == category})
            (best, most), (_, next_best) = near.most_common(2)
            return found[best] if most > next_best else None
        return found[0] if found else None


def _base(path: str) -> str:
    return PurePosixPath(path.replace("\\", "/")).name.removesuffix(".gz")


def _common(one: str, other: str) -> int:
    """Return how many of the last parts of two paths are the same."""
    parts = zip(reversed(PurePosixPath(one).parts), reversed(PurePosixPath(other).parts), strict=False)
    count = 0
    for a, b in parts:
        if a.removesuffix(".gz") != b.removesuffix(".gz"):
            break
        count += 1
    return count


def _alike(benchmark: str, category: str) -> bool:
    """Say whether two names can be of one benchmark: `acasxu_2023` is `2024-acasxu_2023` too."""
    one, other = (name.lower().replace("-", "_") for name in (benchmark, category))
    return one in other or other in one


def _claimed(name: str, example: Result, verdict: str, seconds: float) -> Result:
    """Make the row of a rival's answer, of the same question as one of ours."""
    return Result(
        key="",
        benchmark=example.benchmark,
        folder=example.folder,
        onnx=example.onnx,
        onnx_sha256=example.onnx_sha256,
        vnnlib=example.vnnlib,
        vnnlib_sha256=example.vnnlib_sha256,
        truth=example.truth,
        method=name,
        options={},
        timeout=example.timeout,
        device="",
        threads=None,
        seed=0,
        attack=False,
        verdict=verdict,
        total=seconds,
    )
