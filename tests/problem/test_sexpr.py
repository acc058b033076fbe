from __future__ import annotations

import pytest

from netproof.errors import SpecError
from netproof.problem.vnnlib.sexpr import MAX_DEPTH, Atom, Group, Source, parse


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


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_lines_and_comments_end_with_any_line_end(end: str) -> None:
    source = Source(end.join(["; first (", "(a ; no ) here", "  b) ; c", "(d)", "e"]))
    with pytest.raises(SpecError, match="'e' outside") as caught:
        parse(source)
    assert (caught.value.line, caught.value.column) == (5, 1)
    first, second = parse(Source(source.text[:-1]))
    assert [str(item) for item in first.items] == ["a", "b"]
    assert [source.place(group.at) for group in (first, first.items[1], second)] == [(2, 1), (3, 3), (4, 1)]


# What Unicode or Python calls a blank and SMT-LIB does not, and what cannot be seen at all.
ODD_BLANKS = "\v\f\x1c\x1f\x85\xa0\u1680\u2003\u2028\u2029\u202f\u3000\u200b\ufeff\x00\x7f"


@pytest.mark.parametrize("blank", ODD_BLANKS, ids=lambda blank: f"U+{ord(blank):04X}")
@pytest.mark.parametrize(
    ("text", "place"),
    [("(a)\n(<= Y_0 1?000)", (2, 10)), ("(a\r\n ?b)", (2, 2)), ("(a)?(b)", (1, 4)), ("?(a)", (1, 1))],
)
def test_other_blanks_are_refused_with_their_place(text: str, place: tuple[int, int], blank: str) -> None:
    with pytest.raises(SpecError, match=f"U\\+{ord(blank):04X} separates nothing") as caught:
        parse(Source(text.replace("?", blank)))
    assert (caught.value.line, caught.value.column) == place


def test_comments_and_quotes_may_hold_any_character() -> None:
    (group,) = parse(Source(f'; {ODD_BLANKS}\n(a "{ODD_BLANKS}" |{ODD_BLANKS}|)'))
    assert len(group.items) == 3
