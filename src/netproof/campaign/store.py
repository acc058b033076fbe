"""Results in SQLite: one row per run, on disk before the next one begins.

Write-ahead logging lets others read while a campaign writes, and every row is its own transaction, synchronised to the
disk: whatever is killed, the rows that were added stay.

A store that an earlier version wrote is opened: columns that it lacks are added, and are empty in its rows. What it
holds is shown, not resumed: a job's key has the version in it, and a hash of the sources, since these change
between two versions.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from netproof.campaign.jobs import Job
from netproof.core.files import well_formed
from netproof.errors import UsageError

NAME = "results.sqlite"  # in the folder of a campaign
SCHEMA = 7  # PRAGMA user_version; raise it with every change of the columns
# By form, the columns that it has and the one before has not; they may be empty.
ADDED = {
    2: ("split", "cut_in_lp"),
    3: ("peak_host_memory", "memory"),
    4: ("machine", "command", "input_shape", "refused"),
    5: ("read_as", "was", "changed", "original"),
    6: ("about",),
    7: ("certificate",),
}
APPLICATION = 0x6E707266  # "nprf": tells our files from other SQLite ones
WAIT = 30.0  # seconds for another writer's lock
DONE = ("sat", "unsat", "unknown", "timeout")  # an error is run again, but for one that stays as long as the files do


@dataclass(frozen=True)
class Result:
    """A run that ended: what was asked, what was answered, and what it took."""

    key: str  # of the job
    benchmark: str
    folder: str
    onnx: str  # as instances.csv names it
    onnx_sha256: str  # over all its files, where its weights are beside it
    vnnlib: str
    vnnlib_sha256: str
    truth: str | None
    method: str
    options: Mapping[str, Any]  # every field of the method
    timeout: float | None
    device: str
    threads: int | None  # that the worker used
    seed: int
    attack: bool
    verdict: str  # "sat", "unsat", "unknown", "timeout" or "error"
    reason: str = ""
    decided_by: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)  # by phase; "network": reading it, 0 where it was kept
    total: float = 0.0  # wall-clock seconds, from the question to the answer
    lower_bound: float | None = None
    upper_bound: float | None = None
    domains: int = 0
    split: int | None = None  # None: in form 1, and where a run was ended from outside
    leaf_lps: int = 0
    cut_in_lp: bool | None = None
    rounds: int = 0
    peak_memory: int = 0
    peak_host_memory: int | None = None  # None: before form 3
    memory: str | None = None  # the caps that were given; None: none
    machine: Mapping[str, str | None] | None = None  # what it ran on, in words; None: before form 4
    command: str | None = None  # the command line that asked for it
    input_shape: str | None = None  # of a witness, as "1,3,32,32"
    read_as: int | None = None  # the largest output at a counterexample that is an image
    was: int | None = None  # the same at the middle of the input set
    changed: float | None = None  # the largest change of one number between the two
    original: str | None = None  # that middle, numbers with blanks between them
    about: Mapping[str, Any] | None = None  # hashes of the graph and of the network's files; None: before form 6
    certificate: Mapping[str, Any] | None = None  # of a proof, what became of its own; None: none was asked for
    witness: str = ""  # as text, in the property's own form
    versions: Mapping[str, str | None] = field(default_factory=dict)
    started: str = ""  # ISO 8601, UTC
    finished: str = ""
    error: str = ""  # one line
    refused: str | None = None  # the operator that is not supported: no run of this version changes such an error
    log: str = ""  # the end of what a crashed worker wrote on stderr

    @property
    def solved(self) -> bool:
        return self.verdict in ("sat", "unsat")

    @property
    def version(self) -> str | None:
        """Return the netproof that ran it, as `build` names one; None where no worker got so far as to say.

        Without its sources where it ran before those were kept.
        """
        version, sources = self.versions.get("netproof"), self.versions.get("code")
        return version if sources is None else f"{version}+{sources}"

    @property
    def instance(self) -> tuple[str, str, str]:
        """Return which question it was, for comparing methods: benchmark, model and property."""
        return self.benchmark, self.onnx, self.vnnlib


_FIELDS = dataclasses.fields(Result)
_NAMES = tuple(column.name for column in _FIELDS)
_JSON = tuple(column.name for column in _FIELDS if str(column.type).startswith("Mapping"))
_SQL = {"int": "INTEGER", "bool": "INTEGER", "float": "REAL"}  # all else is TEXT


def _column(name: str, kind: str) -> str:
    """Declare a column by the type of the field."""
    always = kind.removesuffix(" | None")
    return f"{name} {_SQL.get(always, 'TEXT')}{' NOT NULL' if kind == always else ''}"


_COLUMNS = {column.name: _column(column.name, str(column.type)) for column in _FIELDS}
_CREATE = f"CREATE TABLE runs (id INTEGER PRIMARY KEY, {', '.join(_COLUMNS.values())})"


class Store:
    """Every run of a campaign, in one file. A run that is asked for again adds a row; none is ever changed."""

    def __init__(self, path: str | Path, *, create: bool = True) -> None:
        self.path = Path(path)
        if not create and not self.path.is_file():
            raise UsageError("no results there", file=str(self.path), remedy="run `netproof bench` first")
        with self._readable():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=WAIT, isolation_level=None)
            self._connection.row_factory = sqlite3.Row
            self._prepare()

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, ValueError) as error:  # the last where a row is damaged
            remedy = "give another folder, or free the disk"
            raise UsageError(
                f"the results cannot be read or kept: {error}", file=str(self.path), remedy=remedy
            ) from error

    def _prepare(self) -> None:
        mark = self._connection.execute("PRAGMA application_id").fetchone()[0]
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        empty = not self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not empty and (mark != APPLICATION or not 1 <= version <= SCHEMA):
            what = f"results in form {version}, not {SCHEMA}" if mark == APPLICATION else "not results of netproof"
            raise UsageError(what, file=str(self.path), remedy="give another folder with --out")
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        if empty:
            self._connection.executescript(
                f"BEGIN IMMEDIATE; {_CREATE}; CREATE INDEX runs_key ON runs (key);"
                f" PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {SCHEMA}; COMMIT;"
            )
        elif version < SCHEMA:
            self._bring_up()

    def _bring_up(self) -> None:
        """Add the columns that an earlier form lacks, all or none; another process may have done so meanwhile."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            version = self._connection.execute("PRAGMA user_version").fetchone()[0]
            for form in range(version + 1, SCHEMA + 1):
                for name in ADDED[form]:
                    self._connection.execute(f"ALTER TABLE runs ADD COLUMN {_COLUMNS[name]}")
            self._connection.execute(f"PRAGMA user_version = {SCHEMA}")
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise

    def add(self, result: Result) -> None:
        """Keep a result; it is on the disk when this returns."""
        values = [_plain(name, getattr(result, name)) for name in _NAMES]
        with self._readable():
            marks = ", ".join("?" * len(_NAMES))
            self._connection.execute(f"INSERT INTO runs ({', '.join(_NAMES)}) VALUES ({marks})", values)

    def results(self) -> list[Result]:
        """Return all of them, oldest first."""
        return self._select("ORDER BY id")

    def done(self, job: Job) -> Result | None:
        """Return the latest answer to this very job, if it has one; an error is none, unless no run can change it.

        The same files may be in several benchmarks: an answer for this instance's own comes first.
        """
        wanted = f"key = ? AND (verdict IN ({', '.join('?' * len(DONE))}) OR refused IS NOT NULL)"
        order = "benchmark = ? AND onnx = ? AND vnnlib = ? DESC, id DESC"
        names = (job.instance.benchmark, *job.instance.names)
        found = self._select(f"WHERE {wanted} ORDER BY {order} LIMIT 1", job.key, *DONE, *names)
        return found[0] if found else None

    def _select(self, rest: str, *values: str) -> list[Result]:
        sought = [well_formed(value) for value in values]
        with self._readable():
            rows = self._connection.execute(f"SELECT {', '.join(_NAMES)} FROM runs {rest}", sought).fetchall()
            return [_result(row) for row in rows]

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _plain(name: str, value: Any) -> Any:
    if name in _JSON:
        return json.dumps(value, sort_keys=True)
    return well_formed(value) if isinstance(value, str) else value


def _result(row: sqlite3.Row) -> Result:
    values = {name: json.loads(row[name]) if name in _JSON and row[name] else row[name] for name in _NAMES}
    cut = None if row["cut_in_lp"] is None else bool(row["cut_in_lp"])
    return Result(**{**values, "attack": bool(row["attack"]), "cut_in_lp": cut})
