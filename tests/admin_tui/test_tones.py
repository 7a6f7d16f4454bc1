"""The colours of tones."""

from __future__ import annotations

from rich.color_triplet import ColorTriplet

from admin_tui.tones import DARK, STYLES
from broker_cy.reporting.tone import Tone

# WCAG 2.2, level AA, for texts.
CONTRAST_MIN = 4.5
GROUND = ColorTriplet(0x12, 0x12, 0x12)


def luminance(colour: ColorTriplet) -> float:
    """Return the relative luminance of WCAG 2.2."""
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_muted_texts_can_be_read_in_dark_themes() -> None:
    """If this fails, the names of figures are nearly as dark as the background."""
    assert STYLES[Tone.MUTED] == "bright_black"
    muted = DARK.ansi_colors[8]
    assert (luminance(muted) + 0.05) / (luminance(GROUND) + 0.05) >= CONTRAST_MIN
