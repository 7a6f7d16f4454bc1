"""The application of the demo: how often packages of each section were updated in each minute.

Without the demo:

    python -m broker_streams run demo/application.py -b 127.0.0.1:9092 --host embedded
"""

from __future__ import annotations

from broker_streams import JSON, STRING, StreamsBuilder, TimeWindows
from demo.topics import APPLICATION, SECTIONS, UPDATES

builder = StreamsBuilder()
updates = builder.stream(UPDATES, key=STRING, value=JSON)
# A record without a value says that a package is gone.
by_section = updates.filter(lambda key, package: package is not None).group_by(
    lambda key, package: package["section"] or package["source"], key=STRING, value=JSON
)
counts = by_section.windowed_by(TimeWindows.of("1m").grace("10s")).count()
counts.to_stream().map(
    lambda window, updates: (window.key, {"minute_ms": window.window.start_ms, "updates": updates})
).to(SECTIONS, key=STRING, value=JSON)

config = {"application.id": APPLICATION, "commit.interval.ms": 1000}
