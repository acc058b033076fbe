from __future__ import annotations

import pytest

from netproof.errors import SpecError
from netproof.problem.sexpr import MAX_DEPTH, Atom, Group, Source, parse


def test_every_atom_and_list_knows_its_place() -> None:
    source = Source("; a comment (with a paren\n(a\n  (b  c) ; d)\n)\n(e)")
    first, second = parse(source)
    inner = first.items[1]
    assert isinstance(inner, Group)
    assert [source.place(n.at) for n in (first, first.items[0], inner, *inner.items, second)] == [
        (2, 1),
        (2, 2),
        (3, 3),
        (3, 4),
        (3, 7),
        (5, 1),
    ]
    assert (first.head, inner.head, second.head) == ("a", "b", "e")


def test_strings_and_quoted_symbols_hide_parentheses() -> None:
    (group,) = parse(Source('(set-info :source |a ( b|  "c "" ) d" ;)\n)'))
    assert [a.text for a in group.items if isinstance(a, Atom)] == [
        "set-info",
        ":source",
        "|a ( b|",
        '"c "" ) d"',
    ]


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("(a\n (b)", (1, 1), "never closed"),
        ("(a)\n(b (c)\n(d)", (2, 1), "never closed"),
        ("(a))", (1, 4), "closes nothing"),
        ("(a)\n  junk (b)", (2, 3), "'junk' outside"),
        ('(a "b)', (1, 4), "never closed"),
        ("(a |b)", (1, 4), "never closed"),
        ("(" * (MAX_DEPTH + 1), (1, MAX_DEPTH + 1), "nested deeper"),
    ],
)
def test_errors_carry_line_and_column(text: str, place: tuple[int, int], said: str) -> None:
    with pytest.raises(SpecError, match=said) as caught:
        parse(Source(text, "f.vnnlib"))
    assert (caught.value.line, caught.value.column) == place
    assert str(caught.value).startswith(f"f.vnnlib: line {place[0]}, column {place[1]}: ")


@pytest.mark.parametrize("text", ["", "  \n\n", "; only a comment"])
def test_an_empty_file_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="no commands"):
        parse(Source(text))
