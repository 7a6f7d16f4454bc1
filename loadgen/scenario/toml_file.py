"""Reading a scenario from a TOML file. An error names file, line, key, the value and the allowed ones; or the
command-line option that set the value.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.spec import units
from broker_cy.client import toml_values
from broker_cy.client.toml_file import SpecError, Table, read
from loadgen.scenario.entries import read_entry
from loadgen.scenario.model import Scenario, Threshold, TopicSpec, UserSpec
from loadgen.scenario.options import COUNT_MAX, KINDS, name_of
from loadgen.scenario.overrides import RATE, apply, with_rate
from loadgen.scenario.profile import RateProfile, Search
from loadgen.scenario.rates import TIME_MAX_S, positive_rate
from loadgen.scenario.thresholds import OPERATION_BOUNDS, RUN_BOUNDS, VERIFIED, Bound

BUILTIN = Path(__file__).parent / "builtin"
SECONDS_LEAST = 0.1
USERS_MAX = 100  # entries


def builtin_names() -> list[str]:
    """Return the names of the scenarios that come with the tool."""
    return sorted(path.stem for path in BUILTIN.glob("*.toml"))


def read_scenario(source: str | Path, overrides: Mapping[str, str] | None = None) -> Scenario:
    """Read a scenario by the path of a file or the name of a builtin one.

    `overrides` are values of the command line by the names of `overrides.OVERRIDES`. Raises SpecError.
    """
    top = read(_path_of(source))
    values, options = apply(top.values, overrides or {})
    top = Table(top.file, values, top.lines, options=options)
    scenario = _scenario(top, Path(top.file), (overrides or {}).get(RATE))
    top.finish()
    return scenario


def _path_of(source: str | Path) -> Path:
    names = builtin_names()
    if str(source) in names:
        return BUILTIN / f"{source}.toml"
    path = Path(source)
    if not path.is_file():
        close = difflib.get_close_matches(str(source), names, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise SpecError(f"{source}: neither a file nor a scenario of the tool{hint} (allowed: {', '.join(names)})")
    return path


def _scenario(top: Table, path: Path, rate: str | None) -> Scenario:
    verify = top.take("verify", toml_values.one_of("after", "off"), "after")
    topic = _topic(top.table("topic"), verified=verify == "after")
    entries = top.tables("users")
    users = [read_entry(each, folder=path.parent, verified=verify == "after") for each in entries]
    _check_users(top, entries, users, topic)
    seconds = top.take("duration", units.duration(SECONDS_LEAST, TIME_MAX_S), 60.0)
    if rate is not None:
        if "search" in top.values:
            raise SpecError(f"--{RATE}: {rate!r} has no effect beside [search], which sets the rate")
        users = with_rate(users, rate, seconds)
    operations = sorted({name for user in users for name in KINDS[user.kind].operations})
    search = None
    if "search" in top.values:
        if "duration" in top.values:
            raise top.error("duration", "has no effect beside [search], which takes hold for each rate that it tries")
        search = _search(top.table("search"), operations)
        users = _searched(top, users, search)
        seconds = search.longest_s
    return Scenario(
        name=top.take("name", name_of, path.stem),
        description=top.take("description", toml_values.text, ""),
        seconds=seconds,
        warm_up_s=top.take("warm_up", units.duration(0, 3600), 2.0),
        topic=topic,
        users=tuple(users),
        thresholds=_thresholds(top.table("thresholds"), operations, verified=verify == "after"),
        verify=verify,
        search=search,
        seed=top.take("seed", toml_values.integer(0, (1 << 63) - 1), 1),
        timeout_s=top.take("timeout", units.duration(0.1, 3600), 30.0),
    )


def _topic(table: Table, *, verified: bool) -> TopicSpec:
    known = TopicSpec()
    configs = table.table("configs")
    topic = TopicSpec(
        name=table.take("name", name_of, known.name),
        partitions=table.take("partitions", toml_values.integer(1, 10_000), known.partitions),
        replication_factor=table.take("replication_factor", _replication_factor, known.replication_factor),
        configs={name: configs.take(name, _setting) for name in configs.values},
        keep=table.take("keep", toml_values.boolean, known.keep),
    )
    table.finish()
    if topic.name.startswith("__"):
        raise table.error("name", f"{topic.name!r} is the name of an internal topic (allowed: other names)")
    if verified and "compact" in topic.configs.get("cleanup.policy", ""):
        raise configs.error(
            "cleanup.policy",
            f"{topic.configs['cleanup.policy']!r} removes records that are verified (allowed: delete, or verify = "
            '"off")',
        )
    return topic


def _replication_factor(value: Any) -> int:
    found = toml_values.integer(-1, 32_767)(value)
    if found == 0:
        raise ValueError("0 is out of range (allowed: -1, the broker's default, or 1 to 32767)")
    return found


def _setting(value: Any) -> str:
    if isinstance(value, dict | list):
        raise ValueError(f'{value!r} is not a value (quote names with dots: "segment.bytes" = 1000)')
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_users(top: Table, entries: list[Table], users: list[UserSpec], topic: TopicSpec) -> None:
    """Check rules for more than one entry."""
    if not 1 <= len(users) <= USERS_MAX:
        raise top.error("users", f"{len(users)} entries [[users]] (allowed: 1 to {USERS_MAX})")
    seen: dict[str, str] = {}
    for entry, user in zip(entries, users, strict=True):
        if (other := seen.get(user.class_name)) is not None:
            what = "the name of" if other == user.name else f"too similar to {other!r},"
            allowed = "names that differ in more than case and - or _"
            raise entry.error("name", f"{user.name!r} is {what} another entry (allowed: {allowed})")
        seen[user.class_name] = user.name
        if user.kind == "probe" and user.options["partitions"] > topic.partitions:
            raise entry.error(
                "partitions", f"{user.options['partitions']} of the topic's {topic.partitions} (allowed: 0 to that)"
            )
        if user.kind == "transactional-copier":
            if not any("engine" in KINDS[each.kind].fields for each in users):
                raise entry.error("kind", "a copier has nothing to copy without a producer or hot-key in the scenario")
            if user.options["target"] == topic.name:
                raise entry.error("target", f"{topic.name!r} is the topic that is copied (allowed: other names)")
    if (total := sum(user.count for user in users)) > COUNT_MAX:
        raise top.error("users", f"{total} users in all (allowed: up to {COUNT_MAX})")


def _operation(name: str, operations: list[str]) -> str:
    """Check that the scenario has users that perform this operation. Raises ValueError."""
    return toml_values.one_of(*operations)(name)


def _thresholds(table: Table, operations: list[str], *, verified: bool) -> tuple[Threshold, ...]:
    found: list[Threshold] = []
    for name, value in table.values.items():
        if not isinstance(value, dict):
            continue
        try:
            _operation(name, operations)
        except ValueError as error:
            raise table.error(name, f"no users of this scenario perform it: {error}") from None
        below = table.table(name)
        found += _bounds(below, name, OPERATION_BOUNDS)
        below.finish()
    found += _bounds(table, "", RUN_BOUNDS)
    table.known += operations
    table.finish()
    for each in found:
        if not verified and not each.operation and each.metric in VERIFIED:
            raise table.error(each.metric, 'is not measured with verify = "off" (allowed: with verify = "after")')
    return tuple(found)


def _bounds(table: Table, operation: str, bounds: dict[str, Bound]) -> list[Threshold]:
    found = []
    for key, bound in bounds.items():
        value = table.take(key, bound.parse, None)
        if value is not None:
            least, most = (value, None) if bound.is_least else (None, value)
            found.append(Threshold(operation, bound.figure, least, most))
    return found


def _search(table: Table, operations: list[str]) -> Search:
    search = Search(
        operation=table.take("operation", lambda value: _operation(value, operations)),
        percentile=table.take("percentile", toml_values.number(1, 99.999), 99.0),
        bound_ms=1000 * table.take("bound", units.duration(1e-6, 3600)),
        start=table.take("from", positive_rate),
        most=table.take("to", positive_rate),
        factor=table.take("factor", toml_values.number(1.01, 100), 1.5),
        hold_s=table.take("hold", units.duration(1, 3600), 10.0),
        precision=table.take("precision", toml_values.number(0.001, 1), 0.05),
    )
    table.finish()
    if search.most <= search.start:
        raise table.error("to", f"{search.most:g}/s is not above from, {search.start:g}/s")
    return search


def _searched(top: Table, users: list[UserSpec], search: Search) -> list[UserSpec]:
    """Return the users with the first rate of the search at the one entry that it applies to."""
    rated = [at for at, user in enumerate(users) if user.rate is not None]
    if not rated:
        rated = [at for at, user in enumerate(users) if search.operation in KINDS[user.kind].operations]
    if len(rated) != 1:
        names = ", ".join(users[at].name for at in rated)
        raise top.error("search", f"a search sets the rate of one entry, not of {len(rated)}: {names}")
    first = replace(users[rated[0]], rate=RateProfile.constant(search.start))
    return [first if at == rated[0] else user for at, user in enumerate(users)]


__all__ = ["SpecError", "builtin_names", "read_scenario"]
