"""The controller's part in mirrors of topics of other clusters (docs/mirror.md, Link flows)."""

from __future__ import annotations

from typing import Final

# A promotion raises the leader epoch by so many: the source would need as many elections to write in the same epoch,
# and then a reversal could not tell its records from those written after the promotion. There is room for 32,000
# promotions.
PROMOTION_EPOCHS: Final = 1 << 16
