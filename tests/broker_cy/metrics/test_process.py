"""The kernel's statistics of this process."""

from __future__ import annotations

import os

from broker_cy.metrics import process


def test_open_descriptors_are_counted() -> None:
    """If this fails, an operator does not see that a broker is about to run out of descriptors."""
    before = process.read().open_fds
    with open(os.devnull, "rb"), open(os.devnull, "rb"):
        assert process.read().open_fds == before + 2
    assert process.read().open_fds == before
