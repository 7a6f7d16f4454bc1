"""The same scenario with another number of users, as typed into locust's page or given by its option `--users`."""

from __future__ import annotations

from dataclasses import replace

from broker_cy.client.toml_file import SpecError
from loadgen.scenario.model import Scenario
from loadgen.scenario.options import COUNT_MAX


def users_of(scenario: Scenario) -> int:
    """Return the number of users of a scenario."""
    return sum(spec.count for spec in scenario.users)


def with_users(scenario: Scenario, total: int) -> Scenario:
    """Return the scenario with `total` users: the entries keep their proportions, and each has at least one user.

    Rates do not change. Raises SpecError.
    """
    if total == users_of(scenario):
        return scenario
    entries = scenario.users
    if not len(entries) <= total <= COUNT_MAX:
        names = ", ".join(spec.name for spec in entries)
        raise SpecError(
            f"users: {total} is out of range (allowed: {len(entries)} to {COUNT_MAX}, one for each of {names})"
        )
    shares = [spec.count * (total - len(entries)) / users_of(scenario) for spec in entries]
    counts = [1 + int(share) for share in shares]
    # The remaining users go to the entries with the largest truncated fractions.
    by_fraction = sorted(range(len(entries)), key=lambda at: int(shares[at]) - shares[at])
    for at in by_fraction[: total - sum(counts)]:
        counts[at] += 1
    users = tuple(replace(spec, count=count) for spec, count in zip(entries, counts, strict=True))
    for spec in users:
        if (groups := spec.options.get("groups", 1)) > spec.count:
            raise SpecError(
                f"users: {total} leave {spec.count} for the {groups} groups of {spec.name!r} (allowed: more)"
            )
    return replace(scenario, users=users)
