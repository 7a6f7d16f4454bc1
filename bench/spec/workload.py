"""A workload: the records that are sent and fetched, rate and duration. Targets are described in other files."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.spec import units
from broker_cy.client import toml_values
from broker_cy.client.payload.draws import Size
from broker_cy.client.quantities import BYTES
from broker_cy.client.toml_file import SpecError, Table, read

DRIVERS = ("raw", "librdkafka", "kafka")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DISTRIBUTIONS = ("uniform", "lognormal")
RATE_UNITS = {
    "requests/s": "requests",
    "records/s": "records",
    "B/s": "bytes",
    "KB/s": "bytes",
    "MB/s": "bytes",
    "GB/s": "bytes",
}
RECORD_MAX = 10 << 20
READ_UNCOMMITTED, READ_COMMITTED = "read_uncommitted", "read_committed"
TRANSACTIONS, NEW_IDS, KNOWN_IDS = "transactions", "new-ids", "known-ids"
IN_FLIGHT_IDEMPOTENT = 5  # a broker remembers this many batches of each producer
DURATION_MAX_S = 24 * 3600.0
STEADY_S = 60.0


@dataclass(frozen=True)
class Rate:
    """A rate from `start` to `end` of `unit` per second, linear over `ramp_s`; as fast as possible if both are 0."""

    start: float = 0.0
    end: float = 0.0
    unit: str = "records"  # requests, records or bytes
    ramp_s: float = 0.0

    @property
    def unlimited(self) -> bool:
        return self.start == 0 and self.end == 0


@dataclass(frozen=True)
class Transactions:
    """One transactional producer: its transactions, or the initialization of its id."""

    measure: str = TRANSACTIONS  # or NEW_IDS, KNOWN_IDS: InitProducerId alone
    records: int = 100  # of a transaction, over all partitions
    aborted: float = 0.0  # share of the transactions that are aborted
    ids: int = 1  # number of ids that take turns with transactions; for KNOWN_IDS, number of known ids


@dataclass(frozen=True)
class Workload:
    """The contents of a workload file; see docs/bench.md for each key."""

    name: str
    driver: str
    partitions: int
    record_size: Size
    keys: int  # distinct keys; 0: none
    key_bytes: int
    entropy: float  # share of a value's bytes that are random; the rest repeats one byte
    producers: int  # clients; connections for `raw`
    acks: str
    codec: str
    batch_bytes: int  # of one partition in one request, before compression
    linger_s: float
    in_flight: int
    rate: Rate
    consumers: int
    fetch_bytes: int
    warm_up_s: float
    duration_s: float
    steady_s: float  # longest warm-up of a target before its first window; 0: none
    idempotent: bool = False
    isolation: str = READ_UNCOMMITTED
    transactions: Transactions | None = None

    def settings(self) -> dict[str, Any]:
        """Return the settings for the report."""
        return asdict(self)


def load(path: Path) -> Workload:
    """Read a workload file. Raises SpecError."""
    return parse(read(path), path.stem)


def parse(top: Table, name: str) -> Workload:
    """Parse a workload from the top table of its file."""
    records, producers, consumers, times = (top.table(key) for key in ("records", "producers", "consumers", "time"))
    transactions = top.table("transactions")
    transactional = "transactions" in top.values
    workload = Workload(
        name=name,
        driver=top.take("driver", toml_values.one_of(*DRIVERS), "raw"),
        partitions=top.take("partitions", toml_values.integer(1, 10_000), 4),
        record_size=records.take("size", _record_size, Size(100, 100)),
        keys=records.take("keys", toml_values.integer(0, 1_000_000), 0),
        key_bytes=records.take("key_size", units.size(1, 1 << 10), 8),
        entropy=records.take("entropy", toml_values.number(0, 1), 1.0),
        producers=producers.take("count", toml_values.integer(0, 10_000), 1 if transactional else 2),
        acks=producers.take("acks", _acks, "all"),
        codec=producers.take("codec", toml_values.one_of(*CODECS), "none"),
        batch_bytes=producers.take("batch", units.size(1, 64 << 20), 16 << 10),
        linger_s=producers.take("linger", units.duration(0, 60), 0.005),
        in_flight=producers.take("in_flight", toml_values.integer(1, 1000), 5),
        rate=producers.take("rate", _rate, Rate()),
        consumers=consumers.take("count", toml_values.integer(0, 1000), 0),
        fetch_bytes=consumers.take("fetch", units.size(1, 64 << 20), 1 << 20),
        warm_up_s=times.take("warm_up", units.duration(0, DURATION_MAX_S), 1.0),
        duration_s=times.take("duration", units.duration(0.1, DURATION_MAX_S), 10.0),
        steady_s=times.take("steady", units.duration(0, DURATION_MAX_S), STEADY_S),
        idempotent=producers.take("idempotent", toml_values.boolean, False),
        isolation=consumers.take("isolation", toml_values.one_of(READ_UNCOMMITTED, READ_COMMITTED), READ_UNCOMMITTED),
        transactions=_transactions(transactions) if transactional else None,
    )
    for table in (records, producers, consumers, times, transactions, top):
        table.finish()
    _check(workload, top, producers, consumers)
    _check_transactions(workload, top, producers, consumers, transactions)
    return workload


def _transactions(table: Table) -> Transactions:
    known = Transactions()
    measure = table.take("measure", toml_values.one_of(TRANSACTIONS, NEW_IDS, KNOWN_IDS), known.measure)
    return Transactions(
        measure=measure,
        records=table.take("records", toml_values.integer(1, 1_000_000), known.records),
        aborted=table.take("aborted", toml_values.number(0, 1), known.aborted),
        ids=table.take("ids", toml_values.integer(1, 10_000), 1000 if measure == KNOWN_IDS else known.ids),
    )


def _check(workload: Workload, top: Table, producers: Table, consumers: Table) -> None:
    """Check rules for more than one key."""
    if workload.producers == 0 and workload.consumers == 0:
        raise producers.error("count", "0 producers and 0 consumers: nothing to measure")
    if workload.driver == "kafka" and workload.producers and workload.consumers:
        raise consumers.error("count", "Kafka's own tools produce or consume, not both in one run")
    if workload.driver == "raw" and workload.producers > workload.partitions * 10_000:
        raise top.error("partitions", "too few for so many producers")


def _check_transactions(
    workload: Workload, top: Table, producers: Table, consumers: Table, transactions: Table
) -> None:
    """Check rules for idempotent and transactional producers, and for consumers of their records."""
    if workload.idempotent and workload.driver == "kafka":
        raise producers.error("idempotent", "Kafka's own tools are idempotent wherever acks and in_flight allow it")
    if workload.idempotent and (workload.acks != "all" or workload.in_flight > IN_FLIGHT_IDEMPOTENT):
        raise producers.error("idempotent", f'needs acks = "all" and in_flight of at most {IN_FLIGHT_IDEMPOTENT}')
    if workload.isolation != READ_UNCOMMITTED and workload.driver == "kafka":
        raise consumers.error("isolation", f"Kafka's own tools read with {READ_UNCOMMITTED}")
    if (asked := workload.transactions) is None:
        return
    if workload.driver != "raw":
        raise top.error("transactions", 'only with driver = "raw"')
    if workload.producers > 1 or (workload.producers and workload.consumers):
        raise producers.error("count", "transactions have exactly 1 producer, or 0 if consumers read them")
    for key in ("acks", "batch", "idempotent", "in_flight", "linger", "rate"):
        if key in producers.values:
            raise producers.error(key, "has no effect on transactions: one producer waits for each response")
    if asked.measure != TRANSACTIONS and workload.consumers:
        raise transactions.error("measure", f"{asked.measure!r} writes nothing to be read (allowed: {TRANSACTIONS})")
    if asked.records < workload.partitions:
        raise transactions.error("records", f"{asked.records} are too few for {workload.partitions} partitions")
    others: dict[str, tuple[str, ...]] = {NEW_IDS: ("ids", "records", "aborted"), KNOWN_IDS: ("records", "aborted")}
    for key in others.get(asked.measure, ()):
        if key in transactions.values:
            raise transactions.error(key, f"has no effect on {asked.measure!r}")


def _record_size(value: Any) -> Size:
    parse_size = units.size(1, RECORD_MAX)
    if not isinstance(value, dict):
        fixed = parse_size(value)
        return Size(fixed, fixed)
    if unknown := set(value) - {"min", "max", "distribution"}:
        raise ValueError(f"unknown key {sorted(unknown)[0]!r} (allowed: min, max, distribution)")
    if not {"min", "max"} <= set(value):
        raise ValueError('a distribution needs min and max, for example { min = "10 B", max = "1 KB" }')
    least, most = parse_size(value["min"]), parse_size(value["max"])
    if least > most:
        raise ValueError(f"min {value['min']!r} is above max {value['max']!r}")
    return Size(least, most, toml_values.one_of(*DISTRIBUTIONS)(value.get("distribution", "uniform")))


def _acks(value: Any) -> str:
    if isinstance(value, bool | float) or value not in ("all", 0, 1, -1, "0", "1", "-1"):
        raise ValueError(f'{value!r} is not allowed (allowed: "all", 1, 0)')
    return "all" if str(value) in ("all", "-1") else str(value)


def _rate(value: Any) -> Rate:
    """Parse "max", "5000 requests/s", or { from = ..., to = ..., over = ... }."""
    if value == "max":
        return Rate()
    if isinstance(value, str):
        start, unit = _rate_number(value)
        return Rate(start, start, unit)
    if isinstance(value, dict) and set(value) == {"from", "to", "over"}:
        (start, unit), (end, other) = _rate_number(value["from"]), _rate_number(value["to"])
        if unit != other:
            raise ValueError(f"from is in {unit}, to in {other}: both must be the same")
        return Rate(start, end, unit, units.duration(0.1, DURATION_MAX_S)(value["over"]))
    raise ValueError(
        f'{value!r} is not a rate (allowed: "max", "5000 requests/s", {{ from = ..., to = ..., over = "10 s" }})'
    )


def _rate_number(value: Any) -> tuple[float, str]:
    number, unit = units.quantity(value, RATE_UNITS, "a rate", "5000 requests/s")
    if number <= 0:
        raise ValueError(f'{value!r}: above 0, or "max"')
    factor = BYTES[unit.removesuffix("/s")] if RATE_UNITS[unit] == "bytes" else 1
    return number * factor, RATE_UNITS[unit]


__all__ = ["Rate", "SpecError", "Transactions", "Workload", "load", "parse"]
