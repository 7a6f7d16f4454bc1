"""Record the responses of Apache Kafka 4.3.1 to the scripts: `python -m tests.compat.record_answers [PATTERN...]`.

Starts Kafka (downloads 55 MB from Maven Central the first time) and writes tests/fixtures/kafka_4.3.1_answers.json.gz.
With patterns such as 'fetch_*' only those scripts are recorded, and the responses to others are kept.
"""

from __future__ import annotations

import sys
import tempfile
import time
from fnmatch import fnmatchcase
from pathlib import Path

from tests.compat.differential import answers
from tests.compat.differential.brokers import SETTINGS, make_ready
from tests.compat.differential.script import run_script
from tests.compat.differential.scripts import SCRIPTS
from tests.support.kafka_peer import KafkaPeer


def main() -> int:
    patterns = sys.argv[1:] or ["*"]
    wanted = [entry for entry in SCRIPTS.values() if any(fnmatchcase(entry.name, pattern) for pattern in patterns)]
    recorded = answers.load() if answers.FIXTURE.exists() else {}
    failed = 0
    left_out: dict[str, set[str]] = {}
    said: dict[str, set[str]] = {}
    with tempfile.TemporaryDirectory(prefix="kafka-answers-") as directory:
        for broker, settings in SETTINGS.items():
            entries = [entry for entry in wanted if entry.broker == broker]
            if not entries:
                continue
            peer = KafkaPeer(Path(directory) / broker, settings)
            try:
                peer.start()
                make_ready(peer)
                for entry in entries:
                    began = time.monotonic()
                    try:
                        run = run_script(peer, entry)
                        recorded[entry.name] = run.answers
                        family = entry.function.__name__
                        left_out.setdefault(family, set()).update(run.left_out)
                        said.setdefault(family, set()).update(run.answers)
                    except Exception as error:
                        failed += 1
                        recorded.pop(entry.name, None)
                        print(f"{entry.name}: {type(error).__name__}: {error}", file=sys.stderr)
                    took = time.monotonic() - began
                    if took > 3:
                        print(f"{entry.name} took {took:.1f} s", file=sys.stderr)
            finally:
                peer.close()
    kept = {name: recorded[name] for name in sorted(SCRIPTS) if name in recorded}
    answers.save(kept)
    print(f"{sum(map(len, kept.values()))} answers of {len(kept)} scripts, {answers.FIXTURE.stat().st_size} bytes")
    for family, labels in left_out.items():
        for label in labels - said[family]:
            failed += 1
            print(f"{family}: no version has room for {label!r}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
