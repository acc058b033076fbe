"""The table of mutants speaks of the source as it is; `make mutants` runs it."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from mutants import MUTANTS, PACKAGE, TESTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=[m.name for m in MUTANTS])
def test_a_mutant_fits_the_source_and_its_tests_exist(mutant: Mutant) -> None:
    source = (PACKAGE / mutant.file).read_text(encoding="utf-8")
    changed = mutant.applied(source)
    assert changed != source
    ast.parse(changed)
    assert mutant.why
    assert bool(mutant.tests) != bool(mutant.equivalent)
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert (TESTS / path).is_file(), f"{mutant.name}: there is no {path}"
        assert not name or f"def {name.partition('[')[0]}(" in (TESTS / path).read_text(encoding="utf-8"), test


def test_every_mutant_has_a_name_of_its_own() -> None:
    assert [name for name, count in Counter(m.name for m in MUTANTS).items() if count > 1] == []


def test_a_snippet_that_is_gone_or_not_unique_is_named() -> None:
    mutant = Mutant("one", "numerics.py", "a + b", "a", "why", ("test_numerics.py",))
    assert mutant.applied("x = a + b") == "x = a"
    with pytest.raises(LookupError, match="one: snippet not found"):
        mutant.applied("x = a")
    with pytest.raises(LookupError, match="found 2 times"):
        mutant.applied("a + b, a + b")
