"""One page of metrics from those of all shards (the Prometheus text format that metrics.exposition writes). Pure.

Counters and histograms are summed. A restarted shard begins with 0, so the last read counts of its former processes are
added: otherwise the sums would fall, and a monitoring system would assume a restart of the whole node. Gauges are
summed if a sum is meaningful (SUMMED); others get the label `shard`.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Final

from broker_cy.metrics.definitions import METRICS
from broker_cy.metrics.exposition import Page, number

# Gauges whose sum over the shards is the value of the node.
SUMMED: Final = frozenset(
    {
        "broker_cy_connections",
        "broker_cy_client_connections",
        "broker_cy_client_requests",
        "broker_cy_client_received_bytes",
        "broker_cy_client_sent_bytes",
        "broker_cy_partitions",
        "broker_cy_partitions_offline",
        "broker_cy_partitions_unopened",
        "broker_cy_groups",
        "broker_cy_group_members",
        "broker_cy_transactional_ids",
        "broker_cy_share_partitions",
        "broker_cy_share_group_in_flight_records",
        "broker_cy_share_group_last_attempt_records",
        "broker_cy_mirror_partitions",
        "broker_cy_mirror_lag_records",
        "broker_cy_mirror_lag_seconds",
        "broker_cy_mirror_problem",
        "broker_cy_unflushed_bytes",
    }
)
_SUFFIXES: Final = ("_bucket", "_sum", "_count")
# The labels whose values come and go, so that counters with them are not kept for ever.
_PASSING: Final = re.compile(r'[{,]((?:topic|group|client_id)="(?:[^"\\]|\\.)*")')

Values = dict[str, int | float]


def family_of(sample: str) -> str:
    """The family of a line `name{labels}`."""
    name = sample.partition("{")[0]
    if name in METRICS:
        return name
    for suffix in _SUFFIXES:
        if name.endswith(suffix) and name.removesuffix(suffix) in METRICS:
            return name.removesuffix(suffix)
    raise ValueError(f"a shard sent the unknown metric {name}")


def parse(page: bytes) -> Iterator[tuple[str, int | float]]:
    """(name with labels, value) of each line of a page that a shard rendered."""
    for line in page.decode().splitlines():
        if line and not line.startswith("#"):
            sample, _, text = line.rpartition(" ")
            yield sample, int(text) if text.lstrip("-").isdecimal() else float(text)


def is_summed(family: str) -> bool:
    return METRICS[family].kind != "gauge" or family in SUMMED


def with_shard(sample: str, shard: int) -> str:
    """The line with the label `shard`."""
    if sample.endswith("}"):
        return f'{sample[:-1]},shard="{shard}"}}'
    return f'{sample}{{shard="{shard}"}}'


def passing(sample: str) -> list[str]:
    """The topic, group and client id of a line, as they stand there."""
    return _PASSING.findall(sample) if "{" in sample else []


class Merger:
    """Holds the last page of each shard's process, compressed, and the counts of former processes: one number for each
    of their counters whose topic, group or client was on a page when the last process ended.
    """

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, bytes]] = {}  # by shard: its process and its last page
        self._former: Values = {}

    def note(self, shard: int, pid: int, page: bytes) -> None:
        """The page of a shard's process. One of another process than before: that one has ended."""
        last = self._last.get(shard)
        if last is not None and last[0] != pid:
            self._forget()
            for sample, value in parse(zlib.decompress(last[1])):
                if METRICS[family_of(sample)].kind != "gauge":
                    self._former[sample] = self._former.get(sample, 0) + value
        self._last[shard] = (pid, zlib.compress(page, 1))

    def _forget(self) -> None:
        """Drop the counters of topics, groups and clients that are on no page any longer."""
        pages = (zlib.decompress(page) for _, page in self._last.values())
        there = {each for page in pages for sample, _ in parse(page) for each in passing(sample)}
        self._former = {sample: value for sample, value in self._former.items() if there.issuperset(passing(sample))}

    def render(self, running: Mapping[int, bool], own: Mapping[str, Mapping[int | None, int | float]]) -> bytes:
        """The page of the node. `running` has for each shard whether its process runs: without a process its gauges are
        left out, its counters stay. `own` are the parent's metrics by name, and by shard or None.
        """
        found: dict[str, Values] = {}
        for sample, value in self._former.items():
            _add(found, sample, value)
        for shard, (_, page) in sorted(self._last.items()):
            for sample, value in parse(zlib.decompress(page)):
                if METRICS[family_of(sample)].kind == "gauge" and not running.get(shard):
                    continue
                _add(found, sample if is_summed(family_of(sample)) else with_shard(sample, shard), value)
        return self._text(found, own)

    @staticmethod
    def merge(pages: Mapping[int, bytes]) -> bytes:
        """A page of some topics only, which is not remembered."""
        found: dict[str, Values] = {}
        for shard, page in sorted(pages.items()):
            for sample, value in parse(page):
                _add(found, sample if is_summed(family_of(sample)) else with_shard(sample, shard), value)
        return Merger._text(found, {})

    @staticmethod
    def _text(found: Mapping[str, Values], own: Mapping[str, Mapping[int | None, int | float]]) -> bytes:
        page = Page()
        for family in METRICS:
            if family in own:
                page.family(family)
                for shard, value in own[family].items():
                    page.sample(family, value, *([] if shard is None else [str(shard)]))
            elif family in found:
                page.family(family)
                page.parts += [f"{sample} {number(value)}\n" for sample, value in found[family].items()]
        return page.encode()


def _add(found: dict[str, Values], sample: str, value: int | float) -> None:
    values = found.setdefault(family_of(sample), {})
    values[sample] = values.get(sample, 0) + value
