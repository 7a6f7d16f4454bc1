"""Write docs/metrics.md from the table of metrics: `python tools/metrics_doc.py [--check]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

PAGE = ROOT / "docs" / "metrics.md"
HEAD = """\
# Metrics

Use this page to monitor brokers with Prometheus, and to look up the meaning of a metric. `make run` serves the metrics
on port 9404:

    curl -s http://127.0.0.1:9404/metrics

With `brokercy.metrics.listener=HOST:PORT` the broker serves five pages over HTTP/1.1:

- `/metrics`: the metrics in the Prometheus text format. `/metrics?topic=NAME` restricts the partition metrics to that
  topic; the parameter may be repeated.
- `/share-groups?group=NAME`: the records of a share group that are in flight on this broker, as JSON (not on nodes that
  are only controllers). `broker-cy groups in-flight` joins the pages of all brokers ([groups.md](groups.md)).
- `/mirrors`: the mirrors of topics of other clusters that this broker leads, with their state and lag, as JSON
  ([mirror.md](mirror.md#watch-mirrors)).
- `/healthz`: status 200 while the event loop runs.
- `/readyz`: status 200 once clients are accepted and the coordinators are loaded; before that, 503 and the reason.

## Access

Every host that reaches the address can read the pages, unless these settings restrict access:

- `brokercy.metrics.token.file`: a file with a token in each line, of at least 16 characters. `/metrics`,
  `/share-groups` and `/mirrors` are served to requests with `Authorization: Bearer TOKEN` (in Prometheus
  `authorization: {credentials_file: ...}`); other requests get 401. `/healthz` and `/readyz` stay open, but without a
  token `/readyz` does not give the reason.
- `brokercy.metrics.ssl.certificate.file`, and `brokercy.metrics.ssl.key.file` if the key is not in the same file: the
  pages are served over HTTPS only (TLS 1.2 and 1.3).

Tokens and certificates are replaced without a restart: the broker reads the files again when they change. An invalid
file is ignored; the current tokens or certificates stay in use.

## Shards

With `--shards` the parent serves the pages for all shards: counters and histograms are sums, gauges are sums or have
the label `shard`, and `/readyz` needs every shard.

## Cost

Counting is on by default. `brokercy.metrics.enable=false` turns it off, also at run time, and
`broker-bench compare ours ours-uncounted -w produce-100b` shows its cost.

Histograms are log-linear (16 buckets per power of two, from 64 ns to 137 s). `/metrics` contains the powers of two
from 16.384 us to 68.7 s. The broker writes it in slices, and the event loop runs between them: with 10,000 partitions
it takes about 40 ms of CPU time, in slices of a few milliseconds.

## Reference

The table is generated from `broker_cy/metrics/definitions.py` by `tools/metrics_doc.py`; a test keeps it up to date.
`(Kafka: ...)` names the metric of Kafka that has the same meaning. Its FetchLockTimeMs, FetchLockRatio,
TopicPartitionsAcquireTimeMs and RequestTopicPartitionsFetchRatio have no counterpart: they tell how long share fetches
wait for locks of share partitions, and here none does. Its InFlightBatchMessageCount is the quotient of
`broker_cy_share_in_flight_records` and `broker_cy_share_in_flight_batches`.

| metric | type | labels | meaning |
|---|---|---|---|
"""


def page() -> str:
    """Return the whole document."""
    from broker_cy.metrics.definitions import METRICS

    rows = [
        f"| `{metric.name}` | {metric.kind} | {', '.join(metric.labels)} | {metric.help} |\n"
        for metric in METRICS.values()
    ]
    return HEAD + "".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only check whether the page is up to date")
    arguments = parser.parse_args()
    text = page()
    if arguments.check:
        if not PAGE.exists() or PAGE.read_text() != text:
            print("docs/metrics.md is out of date: run python tools/metrics_doc.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
