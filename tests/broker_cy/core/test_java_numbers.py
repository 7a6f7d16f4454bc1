"""Doubles as texts, as a JVM (version 21) printed them."""

from __future__ import annotations

import math

import pytest

from broker_cy.core.java_numbers import double_text

PRINTED = {
    0.0: "0.0",
    1.0: "1.0",
    100.0: "100.0",
    0.5: "0.5",
    0.001: "0.001",
    9999999.0: "9999999.0",
    123456.789: "123456.789",
    1e7: "1.0E7",
    1e10: "1.0E10",
    1.5e-7: "1.5E-7",
    -2.0e-5: "-2.0E-5",
    5e-324: "4.9E-324",
    1.7976931348623157e308: "1.7976931348623157E308",
    math.inf: "Infinity",
    -math.inf: "-Infinity",
}


@pytest.mark.parametrize("value", PRINTED, ids=str)
def test_doubles_have_javas_texts(value: float) -> None:
    """If this fails, a schema or a number has another text than on the JVM, and a schema another id."""
    assert double_text(value) == PRINTED[value]


def test_zero_has_a_sign_and_nan_a_name() -> None:
    """If this fails, two values of Java have one text."""
    assert (double_text(-0.0), double_text(math.nan)) == ("-0.0", "NaN")
