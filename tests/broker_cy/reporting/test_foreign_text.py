"""Foreign text on a terminal."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from broker_cy.reporting.foreign_text import clean, clean_lines


@given(st.text())
def test_foreign_text_never_steers_the_terminal(foreign: str) -> None:
    """If this fails, a topic name or a record moves the cursor, changes colours, or reverses the text that follows."""
    shown = clean(foreign)
    assert "\n" not in shown
    for sign in shown + clean_lines(foreign).replace("\n", ""):
        assert unicodedata.category(sign) not in ("Cc", "Cs", "Zl", "Zp"), repr(sign)
        assert unicodedata.bidirectional(sign) not in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
