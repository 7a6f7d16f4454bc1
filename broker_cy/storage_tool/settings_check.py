"""`broker-cy storage check`: everything that is wrong with the settings of a file, without starting a node."""

from __future__ import annotations

from collections.abc import Callable

from broker_cy.config import BrokerConfig, places, shard_plan, sources


def check(file: str, shards: int, report: Callable[[str], None]) -> int:
    """Report the settings that a start with brokercy.config.strict would refuse, and return the exit code: 1 with any
    such setting. Raises ConfigError.
    """
    properties, written = sources(file), places(file, ())
    problems = BrokerConfig.problems(properties, written)
    if not problems and shards != 1:
        shard_plan.make(properties, shards, written)
    for problem in problems:
        report(str(problem))
    if problems:
        count = len(problems)
        report(f"{file}: {count} problem{'' if count == 1 else 's'} in {len(properties)} settings")
        return 1
    print(f"{file}: each of the {len(properties)} settings has an effect")
    return 0
