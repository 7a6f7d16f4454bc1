"""The Python client `ksql` (0.10.2), with the arguments URL and NAME. Prints one line of JSON.

Its library `hyper` was written for Python before 3.10, whose collections had these names."""

from __future__ import annotations

import collections
import collections.abc
import json
import sys

for name in ("Iterable", "Mapping", "MutableMapping", "MutableSet"):
    setattr(collections, name, getattr(collections.abc, name))

from ksql import KSQLAPI  # noqa: E402
from ksql.errors import KSQLError  # noqa: E402

url, stream = sys.argv[1:]
client = KSQLAPI(url)
properties = {"auto.offset.reset": "earliest"}
client.ksql(
    f"CREATE STREAM {stream} (id BIGINT KEY, page VARCHAR)"
    f" WITH (kafka_topic='{stream}', partitions=1, value_format='JSON');"
)
client.ksql(f"CREATE STREAM {stream}_b AS SELECT id, page FROM {stream} WHERE page='b';", stream_properties=properties)
acks = client.inserts_stream(stream, [{"ID": 1, "PAGE": "a"}, {"ID": 2, "PAGE": "b"}])
rows = []
query = f"SELECT * FROM {stream}_b EMIT CHANGES;"
for row in client.query(query, stream_properties=properties, return_objects=True):
    rows.append(row)
    break
pieces = client.query(f"SELECT * FROM {stream} EMIT CHANGES LIMIT 2;", stream_properties=properties, use_http2=True)
lines = [json.loads(line) for line in "".join(pieces).splitlines()]
try:
    client.ksql("DROP STREAM no_such_stream;")
    error = None
except KSQLError as raised:
    error = raised.args[1]
print(
    json.dumps(
        {
            "version": client.get_ksql_version(),
            "acks": acks,
            "rows": rows,
            "columns": lines[0]["columnNames"],
            "lines": lines[1:],
            "closed": client.close_query(lines[0]["queryId"]),
            "error": error,
        }
    )
)
