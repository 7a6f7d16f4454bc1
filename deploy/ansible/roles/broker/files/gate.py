"""Wait until a cluster may lose a host: every broker and voter is up, and every replica is in sync.

It uses the command line of broker-cy (`cluster health --json`, `quorum show --json`), whose output is the same in all
releases, and needs only Python. It prints the findings as one line of JSON. The exit code is 0 if the gate opened, 1 if
it stayed closed until the timeout.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

# The pause between two checks of a cluster that is not ready yet. A check takes about half a second of a core.
PAUSE_S = 0.5
# The time limit of one call of the command line. Its own limit is shorter, so that it can report the problem.
CALL_S = 20.0
# A following voter has caught up within this time, because it fetches at least every 500 ms.
BEHIND_MS = 3_000


class Unanswered(Exception):
    """No broker answered, or not in time."""


def main() -> int:
    options = parse()
    deadline = time.monotonic() + options.timeout
    begun = time.monotonic()
    while True:
        try:
            wrong = look(options)
        except Unanswered as error:
            wrong = [str(error)]
        waited = round(time.monotonic() - begun, 1)
        if not wrong or time.monotonic() >= deadline:
            print(json.dumps({"open": not wrong, "waited_s": waited, "wrong": wrong}))
            return 1 if wrong else 0
        time.sleep(PAUSE_S)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cli", required=True, help="the command broker-cy")
    parser.add_argument("--clusters-file", required=True, help="the cluster file")
    parser.add_argument("--cluster", default="local", help="the name of the cluster in it")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds to wait at most")
    parser.add_argument("--broker", type=int, action="append", default=[], help="a broker that has to be in service")
    parser.add_argument(
        "--away", type=int, action="append", default=[], help="a node that may be away, with its replicas"
    )
    parser.add_argument(
        "--behind", type=int, action="append", default=[], help="a node in service whose replicas may be out of sync"
    )
    return parser.parse_args()


def look(options: argparse.Namespace) -> list[str]:
    """Return the current problem in words; empty if the gate may open. Raises Unanswered."""
    health = ask(options, "cluster", "health")
    wrong = partitions_wrong(health, options)
    if options.behind and not wrong and health["under_replicated_partitions"]:
        wrong = others_behind(ask(options, "topics", "list", "--under-replicated"), options.behind)
    # Voters are only checked if the partitions are right: this saves a call in each check.
    return wrong or voters_wrong(ask(options, "quorum", "show"), options)


def ask(options: argparse.Namespace, *words: str) -> Any:
    """Return the JSON document that a command prints. Raises Unanswered."""
    command = [
        options.cli,
        *words,
        "--cluster",
        options.cluster,
        "--clusters-file",
        options.clusters_file,
        "--timeout",
        "10",
        "--json",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=CALL_S, check=False)
    except subprocess.TimeoutExpired:
        raise Unanswered(f"`broker-cy {' '.join(words)}` took longer than {CALL_S:.0f} s") from None
    except OSError as error:
        raise Unanswered(f"{options.cli}: {error.strerror}") from None
    try:
        # The exit code is also 1 if the cluster has a problem: only the document counts.
        return json.loads(done.stdout)
    except ValueError:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Unanswered(
            said[-1] if said else f"`broker-cy {' '.join(words)}` ended with code {done.returncode}"
        ) from None


def partitions_wrong(health: dict[str, Any], options: argparse.Namespace) -> list[str]:
    wrong = []
    away = [each for each in health["brokers_away"] if each not in options.away]
    if away:
        wrong.append(f"not in service: broker {listed(away)}")
    counts = ["offline_partitions", "below_min_isr_partitions"]
    # The replicas of a node that is down on purpose are out of sync, too: those of the others cannot be distinguished.
    # With `behind`, `others_behind` distinguishes them.
    if not options.away and not options.behind:
        counts.append("under_replicated_partitions")
    wrong += [f"{health[name]} {name.replace('_', ' ')}" for name in counts if health[name]]
    if health["partitions_moving"]:
        wrong.append(f"{health['partitions_moving']} partitions are being moved (`broker-cy reassign status`)")
    return wrong


def others_behind(partitions: list[dict[str, Any]], behind: list[int]) -> list[str]:
    """The replicas that are out of sync, other than those of the nodes `behind`."""
    late = [
        f"{each['topic']}-{each['partition']}"
        for each in partitions
        if set(each["replicas"]) - set(each["in_sync_replicas"]) - set(behind)
    ]
    return [f"{len(late)} partitions lack a replica of another node, such as {late[0]}"] if late else []


def voters_wrong(quorum: dict[str, Any], options: argparse.Namespace) -> list[str]:
    voters = [each for each in quorum["voters"] if each["replica_id"] not in options.away]
    if quorum["leader_id"] < 0:
        return ["the metadata quorum has no leader"]
    # All times are from the leader's clock, and the leader reports the current time for itself.
    heard = [each["last_fetch_ms"] or 0 for each in quorum["voters"] + quorum["observers"]]
    own = [each["last_fetch_ms"] for each in quorum["voters"] if each["replica_id"] == quorum["leader_id"]]
    now_ms = own[0] if own and own[0] is not None else max(heard, default=0)
    late = [
        each["replica_id"]
        for each in voters
        if each["replica_id"] != quorum["leader_id"] and now_ms - (each["last_caught_up_ms"] or 0) > BEHIND_MS
    ]
    wrong = [f"voter {listed(late)} of the metadata quorum is away or behind"] if late else []
    following = {each["replica_id"] for each in quorum["voters"] + quorum["observers"]}
    missing = [each for each in options.broker if each not in following]
    if missing:
        wrong.append(f"node {listed(missing)} does not follow the metadata log")
    return wrong


def listed(ids: list[int]) -> str:
    return ", ".join(map(str, ids))


if __name__ == "__main__":
    sys.exit(main())
