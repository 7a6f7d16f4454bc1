"""The use of quotas by clients, for samples: clients with a rate, and clients that were throttled.

Bounds: a sample lists QUOTAS_MAX, and the number of the others; METERS_PER_TURN are read in one turn of the loop, of at
most `quotas.entities.ENTITIES_MAX` of each quota. No meter is read while no quota is set.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from broker_cy.metrics.sample import QuotaUse
from broker_cy.quotas.rate import Rate

if TYPE_CHECKING:
    from broker_cy.broker.client_quotas import ClientQuotas
    from broker_cy.metrics.sample import Sample
    from broker_cy.quotas.entities import Meter
    from broker_cy.quotas.limits import Tags

QUOTAS_MAX: Final = 50
METERS_PER_TURN: Final = 500


class QuotaSamples:
    """`read` counts from the last call."""

    def __init__(self, quotas: ClientQuotas) -> None:
        self._quotas = quotas
        # How often, and for how long, each had to wait until the last sample.
        self._waits: dict[tuple[str, Tags], tuple[int, int]] = {}

    async def read(self, sample: Sample, now_ms: int) -> None:
        waits: dict[tuple[str, Tags], tuple[int, int]] = {}
        found: list[QuotaUse] = []
        looked_at = 0
        for key, kind in self._quotas.kinds().items():
            for meter in list(kind):
                use = self._use(key, meter, now_ms)
                sample.throttles += use.waits
                sample.throttled_ms += use.waited_ms
                if meter.waits:
                    waits[key, meter.entity] = meter.waits, meter.waited_ms
                if use.rate > 0 or use.waits:
                    found.append(use)
                looked_at += 1
                if looked_at % METERS_PER_TURN == 0:
                    await asyncio.sleep(0)
        self._waits = waits
        found.sort(key=_order, reverse=True)
        sample.quotas = found[:QUOTAS_MAX]
        sample.quotas_left_out = len(found) - len(sample.quotas)

    def _use(self, key: str, meter: Meter, now_ms: int) -> QuotaUse:
        count, ms = self._waits.get((key, meter.entity), (0, 0))
        if meter.waits < count:
            # It was dropped, and is another one.
            count = ms = 0
        rate = round(meter.rate(now_ms), 3) if isinstance(meter, Rate) else 0.0
        return QuotaUse(key, *meter.entity, meter.limit, rate, meter.waits - count, meter.waited_ms - ms)


def _order(use: QuotaUse) -> tuple[int, float]:
    return use.waited_ms, use.rate / use.limit if use.limit > 0 else 0.0
