"""Java's regular expressions by Python's `re`. tests/broker_mirror/test_like_mirror_maker.py compares random ones."""

from __future__ import annotations

import pytest

from broker_cy.security.java_pattern import NotTranslatable, compiled


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        (r".*[\-\.]internal", "x-internal", "xinternal"),
        (r"\Qa.b\E.*", "a.bc", "axbc"),
        (r"a.c|(?i)foo|b", "B", "ABC"),
        (r"x(?i)y|z", "Z", "Xy"),
        (r"(?<n>a)\k<n>", "aa", "a"),
        (r"[a-c[x-z]]+", "axz", "d"),
        (r"\p{Lower}+\P{Digit}", "ab-", "ab1"),
        (r"[^\d]", "a", "1"),
        (r"(a)\1b", "aab", "ab"),
        (r".", "a", "\n"),
        (r"(?s).", "\n", ""),
        (r"\h\R", "\t\r\n", "\n\n"),
        (r"[\Q]-\E]", "-", "a"),
        (r"\x41\u0042\x{43}\0104", "ABCD", "ABCE"),
        (r"(?-i)a++", "aaa", "A"),
        (r"(?>\bo?\S-*?)&?", "a", "é"),
        (r"\bo*?é?", "o", "é"),
        (r"\B|a", "", "b"),
        (r"\R{2}", "\n\n", "\r\n"),
        (r"\R\n", "\r\n", "\n"),
        (r"a$\R", "a\u2028", "a"),
        (r"a\Z\R", "a\r\n", "a\n\n"),
        (r"\r$\n?", "\r", "\r\n"),
        (r"(?m)a$.*(?s:.)^b", "a\rb", "a\r\r\n"),
    ],
)
def test_a_construct_of_java_matches_the_same(pattern: str, matching: str, other: str) -> None:
    """If this fails, a filter copies other topics than in Java."""
    found = compiled(pattern)
    assert found.fullmatch(matching)
    assert not found.fullmatch(other)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("*", "nothing to repeat"),
        ("a{", "begins no repetition"),
        ("a)", "closes no group"),
        ("[a", "has no closing"),
        ("[", "has no closing"),
        ("a\\", "it ends with a backslash"),
        (r"[\w&&[^a]]", "intersections of classes"),
        (r"[a[^b]]", "a negated class inside of a class"),
        (r"[\P{Digit}a]", "a negated class inside of a class"),
        (r"\p{IsGreek}", r"\\p is not supported"),
        ("(?u)a", "the flag u is not supported"),
        ("(?%a)", r"\(\?% begins no known group"),
        (r"\x{110000}", "is no character"),
        ("(?<=a+)b", "look-behind requires fixed-width pattern"),
        (r"(a\R)+", r"a repeated group with \\R"),
        (r"((a\R)b)*", r"a repeated group with \\R"),
    ],
)
def test_another_construct_is_refused_with_the_reason(pattern: str, reason: str) -> None:
    """If this fails, a filter of an operator silently matches something else."""
    with pytest.raises(NotTranslatable, match=reason):
        compiled(pattern)
