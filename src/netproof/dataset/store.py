"""The answers of a data set in SQLite: one row per image, on disk before the next one comes.

A file belongs to one question: network, data, radius, norm and method. What is open is asked again where there is more
time for it than there was.
"""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from netproof.certificate.wish import Wish
from netproof.core.about import About
from netproof.core.files import well_formed
from netproof.dataset.result import ImageResult, ImageStatus
from netproof.errors import UsageError

NAME = "certify.sqlite"
COUNTEREXAMPLES = "counterexamples"  # the folder beside it, of the arrays that break images
SCHEMA = 3  # PRAGMA user_version
APPLICATION = 0x6E706372  # "npcr": tells our files from other SQLite ones
WAIT = 30.0  # seconds for another writer's lock
COLUMNS = ("image", "name", "label", "predicted", "status", "seconds", "margin", "read_as", "decided_by", "reason")
OF_CERTIFICATES = ("certificate", "leaves", "bytes", "checked", "why_no_certificate")  # more of them, for a table
_CREATE = """
CREATE TABLE question (key TEXT NOT NULL, words TEXT NOT NULL);
CREATE TABLE about (place INTEGER PRIMARY KEY, network TEXT NOT NULL);
CREATE TABLE images (image INTEGER PRIMARY KEY, name TEXT NOT NULL, label INTEGER NOT NULL, predicted INTEGER NOT NULL,
  status TEXT NOT NULL, seconds REAL NOT NULL, margin REAL, read_as INTEGER, decided_by TEXT NOT NULL,
  reason TEXT NOT NULL, given REAL, picture BLOB, certificate TEXT);
"""


@dataclass(frozen=True, eq=False)
class Kept:
    """An answer as it is kept: plain values, and a picture where the image is no proof."""

    result: ImageResult
    name: str  # of the file that the image was read from, or its number
    given: float | None = None  # seconds that it was given
    picture: bytes = b""  # SVG: the image, the counterexample and the difference

    @property
    def row(self) -> tuple[object, ...]:
        """Return its cells, in the order of COLUMNS."""
        one = self.result
        cells = (one.label, one.predicted, str(one.status), one.seconds, one.margin, one.read_as, one.decided_by)
        return (one.index, well_formed(self.name), *cells, one.reason)

    @property
    def of_certificate(self) -> tuple[object, ...]:
        """Return what became of its certificate, in the order of OF_CERTIFICATES."""
        state = self.result.certificate
        if state is None:
            return (None,) * len(OF_CERTIFICATES)
        if not state["written"]:
            return (None, None, None, state["checked"], state["reason"])
        return (well_formed(state["path"]), state["leaves"], state["bytes"], state["checked"], state["reason"])


class Store:
    """The answers of one data set, in one file."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with self._usable():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=WAIT, isolation_level=None)
            self._prepare()

    @contextlib.contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, ValueError) as error:  # the last where a row is damaged
            remedy = "give another folder with --out, or free the disk"
            raise UsageError(
                f"the results cannot be read or kept: {error}", file=str(self.path), remedy=remedy
            ) from error

    def _prepare(self) -> None:
        ask = self._connection.execute
        mark, version = (ask(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
        empty = not ask("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not empty and (mark, version) != (APPLICATION, SCHEMA):
            raise UsageError(
                "not results of this version's `netproof certify`",
                file=str(self.path),
                remedy="give another folder with --out",
            )
        ask("PRAGMA journal_mode = WAL")
        ask("PRAGMA synchronous = FULL")
        if empty:
            marks = f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {SCHEMA};"
            self._connection.executescript(f"BEGIN IMMEDIATE; {_CREATE} {marks} COMMIT;")

    def belong_to(self, key: str, words: str) -> None:
        """Make the file that of a question, or UsageError where it is that of another; words: what people call it."""
        with self._usable():
            found = self._connection.execute("SELECT key, words FROM question").fetchone()
            if found is None:
                self._connection.execute("INSERT INTO question VALUES (?, ?)", (key, well_formed(words)))
            elif found[0] != key:
                raise UsageError(
                    f"it holds the results of another question: {found[1]}",
                    file=str(self.path),
                    remedy="give another folder with --out",
                )

    def note(self, about: About) -> None:
        """Keep what the answers are about: hashes of the graph and of the network's files, as JSON."""
        with self._usable():
            self._connection.execute("REPLACE INTO about VALUES (0, ?)", (json.dumps(about.to_dict()),))

    def about(self) -> About | None:
        """Return what the answers are about; None where nothing was read yet."""
        with self._usable():
            row = self._connection.execute("SELECT network FROM about").fetchone()
        return None if row is None else About.of_dict(json.loads(row[0]))

    def add(self, kept: Kept) -> None:
        """Keep an answer, in place of an earlier one unless that alone is decided; it is on the disk then."""
        with self._usable():
            place = (kept.result.index,)
            before = self._connection.execute("SELECT status FROM images WHERE image = ?", place).fetchone()
            if before is not None and before[0] != ImageStatus.OPEN and kept.result.status == ImageStatus.OPEN:
                return  # a proof that was asked for again, for its certificate
            marks = ", ".join("?" * (len(COLUMNS) + 3))
            state = None if kept.result.certificate is None else json.dumps(kept.result.certificate)
            row = (*kept.row, kept.given, kept.picture, state)
            self._connection.execute(f"REPLACE INTO images VALUES ({marks})", row)

    def answers(self) -> dict[int, Kept]:
        """Return all answers, by image."""
        with self._usable():
            rows = self._connection.execute("SELECT * FROM images ORDER BY image").fetchall()
            return {row[0]: _kept(*row) for row in rows}

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _kept(*row: Any) -> Kept:
    """Read a row; ValueError where it is damaged."""
    index, name, label, predicted, status, seconds, margin, read_as, decided_by, reason, given, picture, state = row
    kind = ImageStatus(status)
    certificate = None if state is None else json.loads(state)
    more = {"decided_by": decided_by, "reason": reason, "certificate": certificate}
    result = ImageResult(index, label, predicted, kind, seconds, margin, read_as, **more)
    return Kept(result, name, given, picture or b"")


def counterexample(index: int) -> str:
    """Return where the array that breaks an image is kept, beside the store."""
    return f"{COUNTEREXAMPLES}/{index:05d}.npy"


def stands(kept: Kept, timeout: float | None, wish: Wish | None = None) -> bool:
    """Say whether an answer need not be looked for again: it is decided, or had as much time as there is now.

    A proof needs its certificate too, where one is asked for.
    """
    if kept.result.status == ImageStatus.PROVED and wish is not None:
        return wish.stands(kept.result.certificate)
    given = math.inf if kept.given is None else kept.given
    return kept.result.status != ImageStatus.OPEN or given >= (math.inf if timeout is None else timeout)
