"""The process that applies one filter with a regular expression: see matching.py, which starts it.

It reads messages from the standard input, each with its length in 4 bytes before it, and answers on the standard output
in the same form. The first message is the filter, as JSON; every other one is a list of (key, value, headers) in the
format of `marshal`, which is answered with the numbers of the matching records as unsigned 32-bit integers.
"""

from __future__ import annotations

import json
import marshal
import os
import signal
import sys
from array import array

from broker_cy.console.record_filter import RecordFilter
from broker_cy.wire.records import Record

# The process ends itself if its parent, which ends it earlier, is gone: the default action of the signal does so even
# while an expression is evaluated.
_ALARM_S = 60
# A search may wait for the dashboard; the dashboard must not wait for a search.
_NICE = 10


def main() -> None:
    source, target = sys.stdin.buffer, sys.stdout.buffer
    os.nice(_NICE)

    def receive() -> bytes | None:
        head = source.read(4)
        return source.read(int.from_bytes(head, "big")) if len(head) == 4 else None

    wanted = receive()
    if wanted is None:
        return
    keep = RecordFilter(**json.loads(wanted)).compile()
    while (message := receive()) is not None:
        signal.alarm(_ALARM_S)
        records = [
            Record(number, 0, key, value, headers)
            for number, (key, value, headers) in enumerate(marshal.loads(message))
        ]
        found = array("I", (record.offset for record in keep(records))).tobytes()
        signal.alarm(0)
        target.write(len(found).to_bytes(4, "big") + found)
        target.flush()


if __name__ == "__main__":
    main()
