"""Reading back acknowledged records, because a response alone does not prove a write."""

from collections.abc import Mapping

from bench.targets.brokers import Target, TargetError
from bench.wire import protocol
from bench.wire.raw import Driver

FETCH_BYTES = 1 << 20
SECONDS_MAX = 600.0  # of one round


def read_tail(target: Target, topic: str, ends: Mapping[int, int], records: int) -> None:
    """Fetch the last `records` records before the end of each partition, and check every checksum.

    `ends` is the next offset of each partition. Raises LoadError if a response or a checksum is wrong, TargetError if
    records are missing, OSError.
    """
    starts = {partition: max(0, end - records) for partition, end in ends.items() if end > 0}
    if not starts:
        return
    leaders = target.leaders(topic, max(ends) + 1)
    addresses = list(dict.fromkeys(leaders[partition] for partition in starts))
    templates = [
        [protocol.fetch_request(topic, each, FETCH_BYTES, max_wait_ms=0) for each in starts if leaders[each] == address]
        for address in addresses
    ]
    driver = Driver(addresses, templates, fetching=True)
    try:
        driver.seek(starts, {})
        reached = dict(starts)
        while short := [partition for partition, offset in reached.items() if offset < ends[partition]]:
            driver.run_closed(depth=1, requests=len(starts), seconds=SECONDS_MAX, check_crc=True)
            found = driver.next_offsets(max(starts) + 1)
            if all(found[partition] == reached[partition] for partition in short):
                first = short[0]
                raise TargetError(
                    f"{target.name}: {topic}-{first} ends at {reached[first]}, "
                    f"but records up to {ends[first]} were acknowledged"
                )
            reached = {partition: found[partition] for partition in starts}
    finally:
        driver.close()
