"""Durations as java.time.Duration reads them."""

from __future__ import annotations

import pytest

from broker_cy.core.config_def.types import ConfigError
from broker_cy.core.config_def.validators import from_column
from broker_cy.core.configs import ConfigType
from broker_cy.core.java_duration import duration_ms

OF_COLUMN = "[latest, earliest, by_duration:PnDTnHnMn.nS]"
VALID = [
    ("P2D", 172_800_000),
    ("PT1.5S", 1_500),
    ("PT1,5S", 1_500),
    ("P1DT2H3M4S", 93_784_000),
    ("pt0.0009s", 0),
    ("PT10M", 600_000),
    ("+PT+1H", 3_600_000),
    ("PT1H-1M", 3_540_000),
    ("-PT-1H", 3_600_000),
    ("PT1M-0.5S", 59_500),
    ("PT0S", 0),
]


@pytest.mark.parametrize(("text", "expected"), VALID)
def test_durations_are_javas(text: str, expected: int) -> None:
    """If this fails, a group or a flow begins at another time than on Kafka, or a valid setting is refused."""
    assert duration_ms(text) == expected
    validate = from_column(OF_COLUMN, ConfigType.STRING)
    assert validate is not None
    validate("auto.offset.reset", f"by_duration:{text}")


@pytest.mark.parametrize(
    "text",
    ["", "P", "PT", "P1DT", "1h", "-PT1H", "PT-0.5S", "P1H", "PT1.1234567890S", "P106751991167301D", "P" + "1" * 300],
)
def test_other_texts_are_refused(text: str) -> None:
    """If this fails, a typing error in the setting makes a group or a flow begin anywhere, or ends the process."""
    with pytest.raises(ValueError, match="invalid duration"):
        duration_ms(text)
    validate = from_column(OF_COLUMN, ConfigType.STRING)
    assert validate is not None
    with pytest.raises(ConfigError):
        validate("auto.offset.reset", f"by_duration:{text}")
