"""Reading the entries `[[users]]` of a scenario: kind, rate, payload, keys, options, and their valid combinations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.spec import units
from broker_cy.client import toml_values
from broker_cy.client.payload.settings import Keys, Payload
from broker_cy.client.toml_file import Table
from loadgen.scenario.fields import take_fields
from loadgen.scenario.model import CODECS, ENGINES, STAMP_BYTES, UserSpec
from loadgen.scenario.options import (
    COUNT_MAX,
    KINDS,
    ON_OWN_TOPICS,
    PRODUCING,
    SHARE_CONSUMERS_MAX,
    Kind,
    engines_with,
    kinds_with,
    name_of,
    options_of,
)
from loadgen.scenario.rates import take_rate

RECORD_MAX = 10 << 20
RECORDS_MAX = 100_000
# Brokers reject larger requests (socket.request.max.bytes).
REQUEST_MAX = 100 << 20
KEYS_MAX = 1_000_000_000
# A zipf distribution keeps a number for each key.
ZIPF_KEYS_MAX = 1_000_000
# A file of values goes to each worker in one message.
FILE_MAX = 16 << 20
# Values of a schema are encoded before the run: each costs 0.1 ms.
SCHEMA_VALUES, SCHEMA_VALUES_MAX = 1_000, 20_000
_HOT_KEYS = Keys("zipf", 1_000, 1.0)


def read_entry(entry: Table, *, folder: Path, verified: bool) -> UserSpec:
    """Read one entry. `folder` is that of the scenario; `verified`: values have stamps. Raises SpecError."""
    kind = KINDS[entry.take("kind", toml_values.one_of(*KINDS))]
    given = {key for key in PRODUCING if key in kind.fields}
    engine = entry.take("engine", toml_values.one_of(*ENGINES), "gevent") if "engine" in given else "gevent"
    spec = UserSpec(
        kind=kind.name,
        name=entry.take("name", name_of, kind.name),
        count=entry.take("count", toml_values.integer(1, COUNT_MAX), 1),
        rate=take_rate(entry),
        engine=engine,
        payload=_payload(entry.table("payload"), folder) if "payload" in given else Payload(),
        keys=_keys(entry, kind) if "keys" in given else Keys(),
        acks=entry.take("acks", _acks, "all") if "acks" in given else "all",
        codec=entry.take("codec", toml_values.one_of(*CODECS), "none") if "codec" in given else "none",
        idempotent=entry.take("idempotent", toml_values.boolean, False) if "idempotent" in given else False,
        records=entry.take("records", toml_values.integer(1, RECORDS_MAX), 1) if "records" in given else 1,
        options={each.name: entry.take(each.name, each.parse, each.default) for each in options_of(kind, engine)},
    )
    for key in entry.values:
        if key in entry.known:
            continue
        if "engine" in given and (engines := engines_with(key)):
            raise entry.error(key, f"is not an option of the engine {engine!r} (allowed: with {', '.join(engines)})")
        if others := kinds_with(key):
            raise entry.error(key, f"is not a key of kind {kind.name!r} (allowed: in {', '.join(others)})")
    entry.finish()
    _check_producing(spec, entry, verified)
    if check := _CHECKS.get(spec.kind):
        check(spec, entry)
    return spec


def _acks(value: Any) -> str:
    if isinstance(value, bool | float) or value not in ("all", 0, 1, -1, "0", "1", "-1"):
        raise ValueError(f'{value!r} is not allowed (allowed: "all", 1, 0)')
    return "all" if str(value) in ("all", "-1") else str(value)


def _payload(table: Table, folder: Path) -> Payload:
    # --value-subject replaces the payload of a scenario.
    usual = "schema" if "subject" in table.values else "fixed"
    kind = table.take("kind", toml_values.one_of("fixed", "sizes", "file", "json", "schema"), usual)
    size = units.size(1, RECORD_MAX)
    entropy = table.take("entropy", toml_values.number(0, 1), 1.0) if kind in ("fixed", "sizes") else 1.0
    if kind == "fixed":
        found = Payload(size=table.take("size", size, 100), entropy=entropy)
    elif kind == "sizes":
        least, most = table.take("min", size), table.take("max", size)
        if least > most:
            raise table.error("min", f"{least} B is above max, {most} B")
        distribution = table.take("distribution", toml_values.one_of("lognormal", "uniform"), "lognormal")
        found = Payload(kind, 0, least, most, distribution, entropy=entropy)
    elif kind == "file":
        name = table.take("path", toml_values.text)
        path = folder / name
        found = Payload(kind, 0, path=str(path), lines=_lines(table, path))
    elif kind == "schema":
        found = _of_schema(table, folder)
    else:
        found = Payload(kind, 0, fields=take_fields(table))
    table.finish()
    return found


def _of_schema(table: Table, folder: Path) -> Payload:
    """Return values of a schema, which are encoded when the registry is known: loadgen.scenario.encoded."""
    subject = table.take("subject", toml_values.text, "")
    schema_id = table.take("id", toml_values.integer(0, 2**31 - 1), -1)
    if bool(subject) == (schema_id >= 0):
        raise table.error("subject", "give either subject or id")
    name = table.take("path", toml_values.text, "")
    path = folder / name
    return Payload(
        "schema",
        0,
        path=str(path) if name else "",
        lines=_lines(table, path) if name else (),
        subject=subject,
        schema_id=schema_id,
        message=table.take("message", toml_values.text, ""),
        count=0 if name else table.take("count", toml_values.integer(1, SCHEMA_VALUES_MAX), SCHEMA_VALUES),
    )


def _lines(table: Table, path: Path) -> tuple[bytes, ...]:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_MAX + 1)
    except OSError as error:
        raise table.error("path", f"{str(path)!r} cannot be read: {error.strerror}") from None
    if len(data) > FILE_MAX:
        raise table.error("path", f"{str(path)!r} is larger than {FILE_MAX >> 20} MiB, the most that is allowed")
    lines = tuple(line for line in data.replace(b"\r\n", b"\n").split(b"\n") if line)
    if not lines:
        raise table.error("path", f"{str(path)!r} has no line that is not empty")
    if (longest := max(map(len, lines))) > RECORD_MAX:
        raise table.error("path", f"{str(path)!r} has a line of {longest} B (allowed: up to {RECORD_MAX} B)")
    return lines


def _keys(entry: Table, kind: Kind) -> Keys:
    hot = kind.name == "hot-key"
    if hot and "keys" not in entry.values:
        entry.known.append("keys")
        return _HOT_KEYS
    table = entry.table("keys")
    found = table.take("kind", toml_values.one_of("none", "sequential", "uniform", "zipf"), "zipf" if hot else "none")
    if hot and found != "zipf":
        raise table.error("kind", f'{found!r} is not allowed for kind "hot-key" (allowed: zipf)')
    if found == "none":
        table.finish()
        return Keys()
    most = ZIPF_KEYS_MAX if found == "zipf" else KEYS_MAX
    default = {"default": _HOT_KEYS.count} if hot else {}
    keys = Keys(
        found,
        table.take("count", toml_values.integer(1, most), **default),
        table.take("s", toml_values.number(0.01, 10), 1.0) if found == "zipf" else 1.0,
        table.take("size", units.size(1, 1 << 10), 8),
    )
    table.finish()
    if keys.count > 10**keys.size:
        raise table.error("count", f"{keys.count} keys need more than {keys.size} digits: make size larger")
    return keys


def _check_producing(spec: UserSpec, entry: Table, verified: bool) -> None:
    """Check the rules that apply to every engine."""
    payload = spec.payload
    least = {"fixed": payload.size, "sizes": payload.least}.get(payload.kind, STAMP_BYTES)
    if "payload" in KINDS[spec.kind].fields and least < STAMP_BYTES and (verified or spec.kind == "probe"):
        key = "size" if payload.kind == "fixed" else "min"
        hint = "" if spec.kind == "probe" else ', or verify = "off"'
        raise entry.table("payload").error(
            key,
            f"{least} B is less than the {STAMP_BYTES} B that identify a record (allowed: at least those{hint})",
        )
    if spec.idempotent and spec.acks != "all":
        raise entry.error("acks", f'{spec.acks} cannot be idempotent (allowed: "all", or idempotent = false)')
    if spec.engine == "raw" and payload.kind == "json":
        raise entry.error(
            "engine", "'raw' sends values encoded beforehand, which json is not (allowed: gevent, librdkafka)"
        )
    if spec.engine == "raw" and spec.kind == "hot-key":
        raise entry.error("engine", "'raw' spreads its batches over all partitions (allowed: gevent, librdkafka)")
    if spec.engine == "raw" and verified and spec.acks != "all":
        raise entry.error(
            "acks",
            f'{spec.acks}: the engine raw is idempotent when it is verified (allowed: "all", or verify = "off")',
        )
    largest = max(payload.size, payload.most, max(map(len, payload.lines), default=0))
    if spec.records * largest > REQUEST_MAX:
        raise entry.error("records", f"{spec.records} of {largest} B exceed {REQUEST_MAX} B, the largest request")


def _no_effect(entry: Table, keys: tuple[str, ...], why: str) -> None:
    for key in keys:
        if key in entry.values:
            raise entry.error(key, f"has no effect: {why}")


def _check_membership(spec: UserSpec, entry: Table) -> None:
    session, heartbeat = spec.options["session_timeout_ms"], spec.options["heartbeat_interval_ms"]
    if heartbeat >= session:
        raise entry.error("heartbeat_interval_ms", f"{heartbeat} is not below session_timeout_ms, {session}")


def _check_slow(spec: UserSpec, entry: Table) -> None:
    _check_membership(spec, entry)
    if bool(spec.options["records_per_second"]) == bool(spec.options["delay_ms"]):
        raise entry.error("records_per_second", "give either records_per_second or delay_ms, above 0")


def _check_member(spec: UserSpec, entry: Table) -> None:
    if spec.options["protocol"] == "consumer":
        keys = ("session_timeout_ms", "heartbeat_interval_ms", "assignor")
        _no_effect(entry, keys, 'protocol is "consumer": the broker and the settings of the group decide')
    else:
        _check_membership(spec, entry)
    churn = spec.options["churn"]
    if spec.options["groups"] > spec.count:
        raise entry.error("groups", f"{spec.options['groups']} for {spec.count} users (allowed: 1 to {spec.count})")
    if spec.options["static"] and churn == "leave":
        raise entry.error("churn", "static members never leave their group (allowed: none, kill, pause)")
    if churn == "none":
        _no_effect(entry, ("churn_every",), 'churn is "none"')
    if churn not in ("leave", "kill"):
        _no_effect(entry, ("rejoin_after",), f'churn is "{churn}" (needed: leave, kill)')
    if churn != "pause":
        _no_effect(entry, ("pause_for",), f'churn is "{churn}" (needed: pause)')


def _check_sharing(spec: UserSpec, entry: Table) -> None:
    if spec.count > SHARE_CONSUMERS_MAX:
        raise entry.error("count", f"{spec.count} is too many for {spec.kind} (allowed: 1 to {SHARE_CONSUMERS_MAX})")
    released, rejected = spec.options["release_share"], spec.options["reject_share"]
    if released + rejected > 1:
        raise entry.error("reject_share", f"{rejected:g} and release_share, {released:g}, are more than 1 together")


def _check_admin(spec: UserSpec, entry: Table) -> None:
    operations = spec.options["operations"]
    if "create-topic" not in operations and (acting := [each for each in operations if each in ON_OWN_TOPICS]):
        raise entry.error("operations", f"{acting[0]!r} acts on topics of this entry: it needs 'create-topic'")


_CHECKS = {
    "slow-consumer": _check_slow,
    "group-member": _check_member,
    "share-consumer": _check_sharing,
    "transactional-copier": _check_membership,
    "admin-churn": _check_admin,
}
