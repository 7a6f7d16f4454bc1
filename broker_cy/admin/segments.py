"""How many segments each partition of a topic has. No Kafka API reports it: broker-cy does at its `/metrics`."""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from urllib.parse import quote

from broker_cy.admin.caller import Caller
from broker_cy.admin.metrics_listener import pages_of

_LINE = re.compile(rb'^broker_cy_partition_segments\{.*partition="(\d+)"\} (\d+)$', re.MULTILINE)


async def segments_of(
    caller: Caller, topic: str, token_file: Path | None = None, context: ssl.SSLContext | None = None
) -> dict[int, int]:
    """Segments by partition, where brokers report them. `token_file` and `context` as in `pages_of`."""
    pages = await pages_of(caller, f"/metrics?topic={quote(topic, safe='')}", token_file, context)
    return {int(partition): int(count) for page in pages.values() for partition, count in _LINE.findall(page)}
