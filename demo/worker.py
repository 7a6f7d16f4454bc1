"""One client of the demo as a process: python -m demo.worker produce KIND BOOTSTRAP PER_S, or consume MEMBER BOOTSTRAP
SESSION_TIMEOUT_MS. SIGTERM stops it cleanly.
"""

from __future__ import annotations

import signal
import sys
import threading

from demo.members import member
from demo.packages import packages
from demo.producers import KINDS
from demo.topics import GROUPS

# librdkafka may wait forever while it closes a consumer whose group is rebalancing, and no Python code runs meanwhile,
# so the kernel ends the process.
STOP_S = 5


def main(what: str, name: str, bootstrap: str, number: str) -> None:
    stop = threading.Event()

    def end(*_: object) -> None:
        stop.set()
        signal.alarm(STOP_S)

    signal.signal(signal.SIGTERM, end)
    if what == "produce":
        KINDS[name](bootstrap, packages(), float(number), stop.wait)
        return
    group = next(each for each in GROUPS if name in each.members)
    member(bootstrap, group.group_id, group.topics, name, group.per_s, int(number), stop.wait)


if __name__ == "__main__":
    main(*sys.argv[1:])
