"""The data directory of a node with shards: it contains one for each shard, and nothing else of a broker."""

from __future__ import annotations

import os
import re
from typing import Final

from broker_cy.config.shard_plan import Plan, directory
from broker_cy.storage.data_directory import DataDirectoryError, is_formatted

_SHARD: Final = re.compile(r"shard-([0-9]{1,4})")


def check(plan: Plan) -> None:
    """Raise DataDirectoryError if a data directory is that of a broker without shards, or of more shards. One that
    cannot be read is left to the shards, which may run without it.
    """
    for root in map(os.path.abspath, plan.roots):
        _check(root, len(plan.shards), is_needed=root == os.path.abspath(plan.root))


def _check(root: str, count: int, *, is_needed: bool) -> None:
    if is_formatted(root):
        raise DataDirectoryError(
            f"data directory {root} is that of a broker without shards: stop the broker, and move its content to "
            f"{directory(root, 0)}, which becomes shard 0"
        )
    try:
        names = os.listdir(root)
    except FileNotFoundError:
        return
    except OSError as error:
        if not is_needed:
            return
        raise DataDirectoryError(f"data directory {root} cannot be read: {error.strerror}") from error
    numbers = [int(found[1]) for name in names if (found := _SHARD.fullmatch(name))]
    more = sorted(number for number in numbers if number >= count and is_formatted(directory(root, number)))
    if more:
        raise DataDirectoryError(
            f"data directory {directory(root, more[0])} has the data of shard {more[0]}, which would not run with "
            f"--shards {count}: use --shards {more[-1] + 1}, or decommission that broker and remove its directory"
        )
