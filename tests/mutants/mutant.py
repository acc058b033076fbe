"""One small wrong change of the source, which some test must notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PACKAGE = TESTS.parent / "src" / "netproof"


@dataclass(frozen=True)
class Mutant:
    """`old` stands once in `file` (below src/netproof) and becomes `new`: then a proof rests on nothing."""

    name: str
    file: str
    old: str
    new: str
    why: str  # what a proof rests on here
    tests: tuple[str, ...] = ()  # what must notice: files or test ids, below tests/
    equivalent: str = ""  # why nothing can notice, where that is so: then it is not run

    def applied(self, source: str) -> str:
        """The source with the mutant in it."""
        found = source.count(self.old)
        if found == 0:
            raise LookupError(f"{self.name}: snippet not found in {self.file}: the code changed, adapt the mutant")
        if found > 1:
            raise LookupError(f"{self.name}: snippet found {found} times in {self.file}: make it longer")
        return source.replace(self.old, self.new)
