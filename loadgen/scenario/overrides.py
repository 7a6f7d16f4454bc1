"""Options of the command line that replace values of a scenario. They pass the same checks, and errors name them."""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from broker_cy.client.toml_file import SpecError
from loadgen.scenario.model import UserSpec
from loadgen.scenario.options import KINDS, kinds_with
from loadgen.scenario.rates import RATE_MAX, rate_text

RATE = "rate"
USERS = "users"
_WHOLE = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True)
class Override:
    """One option: `keys` is the path of the key that it sets, below each entry of users if `of_users`."""

    name: str
    metavar: str
    help: str
    keys: tuple[str, ...] = ()
    of_users: bool = False
    parse: Callable[[str], Any] = str


def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def _whole_or_text(text: str) -> int | str:
    return int(text) if _WHOLE.fullmatch(text) else text


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"{text!r} is not allowed (allowed: true, false)")
    return text == "true"


OVERRIDES: dict[str, Override] = {
    each.name: each
    for each in (
        Override(RATE, "RATE", '"5000/s": scales the rates to this sum; or "100/s to 5000/s over 30s", for one rate'),
        Override(USERS, "COUNT", "the number of users, or NAME=COUNT,... if the scenario has several entries"),
        Override("duration", "TIME", "the measured time, such as 60s or 2h", ("duration",)),
        Override("warm-up", "TIME", "the time before the measured time", ("warm_up",)),
        Override("timeout", "TIME", "timeout of a request", ("timeout",)),
        Override("verify", "WHEN", "when the written records are verified: after or off", ("verify",)),
        Override("seed", "NUMBER", "seed of all random values", ("seed",), parse=_whole),
        Override("topic", "NAME", "the topic of the run", ("topic", "name")),
        Override("partitions", "NUMBER", "number of partitions of the topic", ("topic", "partitions"), parse=_whole),
        Override(
            "replication-factor",
            "NUMBER",
            "number of replicas; -1: the default",
            ("topic", "replication_factor"),
            parse=_whole,
        ),
        Override("keep", "true|false", "whether the topic stays after the run", ("topic", "keep"), parse=_boolean),
        Override("engine", "NAME", "engine of all producers: gevent, raw or librdkafka", ("engine",), True),
        Override("acks", "ACKS", "acks of all producers: all, 1 or 0", ("acks",), True),
        Override("codec", "NAME", "the compression of all producers", ("codec",), True),
        Override("idempotent", "true|false", "whether producers are idempotent", ("idempotent",), True, _boolean),
        Override("records", "NUMBER", "records of a request", ("records",), True, _whole),
        Override(
            "size", "SIZE", "each value has this size, such as 100 or 1KB", ("payload", "size"), True, _whole_or_text
        ),
        Override(
            "value-subject",
            "SUBJECT",
            "values are random records of the newest schema of this subject (with --registry)",
            ("payload", "subject"),
            True,
        ),
    )
}


def apply(values: Mapping[str, Any], overrides: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of a file, replaced by those of the command line, and the option of each replaced path. RATE is
    left to `with_rate`. Raises SpecError.
    """
    changed = copy.deepcopy(dict(values))
    options: dict[str, str] = {}
    for name, text in overrides.items():
        override = OVERRIDES.get(name)
        if override is None:
            close = difflib.get_close_matches(name, OVERRIDES, 1)
            hint = f"; did you mean '--{close[0]}'?" if close else ""
            raise SpecError(f"--{name}: unknown option{hint} (allowed: {', '.join(f'--{each}' for each in OVERRIDES)})")
        if name == RATE:
            continue
        try:
            if name == USERS:
                _set_counts(changed, options, text)
            elif override.of_users:
                _set_users(changed, options, override, override.parse(text))
            else:
                _set(changed, options, "", override, override.parse(text))
        except ValueError as error:
            raise SpecError(f"--{name}: {error}") from None
    return changed, options


def _set(table: dict[str, Any], options: dict[str, str], path: str, override: Override, value: Any) -> None:
    for key in override.keys[:-1]:
        below = table.setdefault(key, {})
        if not isinstance(below, dict):
            return  # the reader refuses it
        table, path = below, f"{path}{key}."
    table[override.keys[-1]] = value
    options[f"{path}{override.keys[-1]}"] = f"--{override.name}"


def _entries(values: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    entries = values.get("users")
    found = enumerate(entries) if isinstance(entries, list) else ()
    return [(at, entry) for at, entry in found if isinstance(entry, dict)]


def _set_users(values: dict[str, Any], options: dict[str, str], override: Override, value: Any) -> None:
    """Set a value in each entry whose kind has it. Raises ValueError if no kind has it."""
    key = override.keys[0]
    concerned = [(at, entry) for at, entry in _entries(values) if entry.get("kind") in kinds_with(key)]
    if not concerned:
        raise ValueError(f"no users of this scenario have it (allowed: with users of {', '.join(kinds_with(key))})")
    for at, entry in concerned:
        if key == "payload":
            given = [option for path, option in options.items() if path.startswith(f"users[{at}].payload.")]
            if given:
                raise ValueError(f"{value!r} cannot be combined with {given[0]}")
            payload = entry.get("payload")
            # Other payloads have no entropy.
            kept = payload if isinstance(payload, dict) and override.keys[-1] == "size" else {}
            entry["payload"] = {"entropy": kept["entropy"]} if "entropy" in kept else {}
        _set(entry, options, f"users[{at}].", override, value)


def _set_counts(values: dict[str, Any], options: dict[str, str], text: str) -> None:
    """Set the counts of "40" or "producers=40,members=8". Raises ValueError."""
    entries = {str(entry.get("name", entry.get("kind"))): (at, entry) for at, entry in _entries(values)}
    for part in text.split(","):
        name, equals, number = part.strip().rpartition("=")
        if not equals:
            if len(entries) != 1:
                raise ValueError(f"{text!r} does not say which users (allowed: NAME=COUNT, NAME: {', '.join(entries)})")
            name = next(iter(entries))
        if name not in entries:
            raise ValueError(f"unknown users {name!r} (allowed: {', '.join(entries)})")
        at, entry = entries[name]
        entry["count"] = _whole(number)
        options[f"users[{at}].count"] = f"--{USERS}"


def with_rate(users: list[UserSpec], text: str, seconds: float) -> list[UserSpec]:
    """Return the users with rates whose means over the run's `seconds` add up to that of `text`.

    A ramp, or a rate for users without one, needs exactly one entry that it can apply to: the one with a rate, or else
    the one that produces, or the only one. Raises SpecError.
    """
    try:
        profile = rate_text(text)
    except ValueError as error:
        raise SpecError(f"--{RATE}: {error}") from None
    rated = [user for user in users if user.rate is not None]
    total = sum(user.rate.mean_over(seconds) for user in rated if user.rate is not None)
    if not total or len(profile.pieces) > 1 or profile.pieces[0].start != profile.pieces[0].end:
        concerned = rated or [user for user in users if "engine" in KINDS[user.kind].fields] or users
        if len(concerned) != 1:
            names = ", ".join(user.name for user in concerned)
            raise SpecError(f"--{RATE}: {text!r} is for one entry of users, and could be for {names}")
        return [replace(user, rate=profile) if user is concerned[0] else user for user in users]
    factor = profile.highest / total
    scaled = [user if user.rate is None else replace(user, rate=user.rate.scaled(factor)) for user in users]
    highest = max(user.rate.highest for user in scaled if user.rate is not None)
    if highest > RATE_MAX:
        raise SpecError(f"--{RATE}: {text!r} makes a rate of {highest:g}/s (allowed: up to {RATE_MAX:g}/s)")
    return scaled
