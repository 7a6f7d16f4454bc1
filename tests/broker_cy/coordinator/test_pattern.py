"""Patterns of transactional ids, against Python's `re` for syntax that both support."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_cy.coordinator.pattern import Pattern, PatternError

PIECES = ["a", "b", "c", ".", "*", "+", "?", "|", "(", ")", "[ab]", "[^a]", "\\w", "\\b", "^", "$", "{1,2}", "(?:"]


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), st.text("abc ", max_size=5))
def test_matches_as_re_does(pattern: str, text: str) -> None:
    """If this fails, an admin client gets other transactions than those it asked for."""
    try:
        model = re.compile(pattern)
        ours = Pattern(pattern)
    except (re.error, PatternError):
        return  # The two syntaxes have different errors: a{1,2}+ is one here, and ^* is one there.
    assert ours.matches(text) == (model.fullmatch(text) is not None)


@pytest.mark.parametrize(
    ("pattern", "fits", "fits_not"),
    [
        ("my-app-\\d+", "my-app-17", "my-app-x"),
        ("(?i)PAY.*", "payments", "repay"),
        ("a(?i:b)c", "aBc", "aBC"),
        ("[[:alpha:]_-]+", "a_-z", "a1"),
        ("[^[:digit:]]+", "abc", "a1"),
        ("[]a]+", "]a", "b"),
        ("[a-c-]+", "a-c", "d"),
        ("\\Qa.b\\E.", "a.bx", "axbx"),
        ("\\pL+", "é", "1"),
        ("\\P{Lu}", "a", "A"),
        ("\\x41\\x{42}", "AB", "ab"),
        ("\\101", "A", "a"),
        ("(?P<name>x)+|(?<other>y)", "xx", "xy"),
        ("a{2}", "aa", "aaa"),
        ("a{2,}?", "aaa", "a"),
        ("a{,2}", "a{,2}", "aa"),
        (".", "x", "\n"),
        ("(?s).", "\n", ""),
        ("", "", "x"),
        ("\\p{Greek}+", "αβγ", "abc"),
        ("\\\\C", "\\C", "x"),
        ("é.", "é€", "é"),
    ],
)
def test_syntax(pattern: str, fits: str, fits_not: str) -> None:
    """If this fails, a pattern that Kafka supports is refused, or means something else."""
    assert Pattern(pattern).matches(fits)
    assert not Pattern(pattern).matches(fits_not)


@pytest.mark.parametrize(
    "pattern",
    [
        *("(", ")", "a)", "[a", "[b-a]", "*", "a**", "{2}", "a{1001}", "a{2,1}", "\\", "\\q", "(?x)", "[[:odd:]]"),
        *("\\p{Q}", "\\xzz", "(?P<>a)", "((a{1000}){1000}){1000}", "\\C", "a\\\\\\C"),
    ],
)
def test_what_is_no_pattern(pattern: str) -> None:
    """If this fails, bad input ends the connection, or exhausts the memory."""
    with pytest.raises(PatternError, match="is not a valid regular expression"):
        Pattern(pattern)


def test_text_that_is_no_unicode() -> None:
    """A transactional id may contain any Java string; it must not fail the whole request."""
    assert Pattern("a.*").matches("a\ud800")
    assert not Pattern("b\ud800").matches("a")


def test_no_pattern_takes_long() -> None:
    """If this fails, one request blocks the broker: with backtracking it would take practically forever."""
    assert not Pattern("(a*)*b|(a|a?)+c|(.*){20}d").matches("a" * 249)
    assert not Pattern("(?:" + "(a|b|ab)*" * 100 + ")c").matches("ab" * 10_000)


def test_the_library_is_loaded_with_the_first_pattern() -> None:
    """An idle broker does not need its memory."""
    code = "import sys, broker_cy.main; assert 're2' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
