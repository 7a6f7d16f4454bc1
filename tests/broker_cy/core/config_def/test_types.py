"""Texts and values: text is parsed as its author meant it, and a displayed value can be set again."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_cy.core.config_def.types import ConfigError, java_double_text, parse, to_text
from broker_cy.core.configs import ConfigType
from broker_cy.core.properties import parse_properties


@pytest.mark.parametrize(
    ("config_type", "text", "value"),
    [
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.INT, "+7", 7),
        (ConfigType.INT, "-2147483648", -(2**31)),
        (ConfigType.SHORT, "32767", 32767),
        (ConfigType.LONG, "0009", 9),
        (ConfigType.DOUBLE, "1e-5", 1e-5),
        (ConfigType.DOUBLE, ".5f", 0.5),
        (ConfigType.LIST, " a , b,c ", ("a", "b", "c")),
        (ConfigType.LIST, "", ()),
        (ConfigType.LIST, "a,", ("a", "")),
        (ConfigType.STRING, "  x y ", "x y"),
    ],
)
def test_parse(config_type: ConfigType, text: str, value: object) -> None:
    assert parse("n", text, config_type) == value


@pytest.mark.parametrize(
    ("config_type", "text"),
    [
        (ConfigType.BOOLEAN, "yes"),
        (ConfigType.INT, "2147483648"),
        (ConfigType.INT, "1_000"),
        (ConfigType.INT, "0x10"),
        (ConfigType.INT, "1.0"),
        (ConfigType.INT, ""),
        (ConfigType.INT, "٣"),
        (ConfigType.SHORT, "32768"),
        (ConfigType.LONG, "9223372036854775808"),
        (ConfigType.DOUBLE, "1,5"),
        (ConfigType.DOUBLE, "inf"),
    ],
)
def test_refused(config_type: ConfigType, text: str) -> None:
    """Python accepts some of these as numbers, Kafka does not: both must read the same settings."""
    with pytest.raises(ConfigError, match=r"Invalid value .* for configuration n: "):
        parse("n", text, config_type)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (100.0, "100.0"),
        (1e-5, "1.0E-5"),
        (0.001, "0.001"),
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (12345678.9, "1.23456789E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (-0.00012, "-1.2E-4"),
        (float("inf"), "Infinity"),
    ],
)
def test_doubles_look_like_java(value: float, text: str) -> None:
    """Infrastructure tools compare texts: a different spelling would show as a change that never goes away."""
    assert java_double_text(value) == text


@given(st.floats(allow_nan=False))
def test_doubles_come_back(value: float) -> None:
    text = to_text(value, ConfigType.DOUBLE)
    assert text is not None
    back = parse("n", text, ConfigType.DOUBLE)
    assert back == value
    assert math.copysign(1, back) == math.copysign(1, value)


@given(st.text())
def test_any_file_is_read_or_refused(text: str) -> None:
    """A damaged file must give a message, not a traceback."""
    with contextlib.suppress(ConfigError):
        found = parse_properties(text)
        assert all(isinstance(value, str) for pair in found.items() for value in pair)


@given(st.sampled_from(sorted(ConfigType)), st.text())
def test_any_text_is_a_value_or_refused(config_type: ConfigType, text: str) -> None:
    """Only ConfigError may leave the parser, and its results can be displayed."""
    with contextlib.suppress(ConfigError):
        assert isinstance(to_text(parse("n", text, config_type), config_type), str)
