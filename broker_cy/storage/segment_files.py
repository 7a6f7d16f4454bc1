"""Which files a segment has, by the ends of their names, as in Kafka."""

from typing import Final

# The records and what finds them; `cleaner` replaces these together.
DATA_SUFFIXES: Final = (".log", ".index", ".timeindex", ".txnindex")
SNAPSHOT_SUFFIX: Final = ".snapshot"
# With the producers' state at the segment's base offset.
SEGMENT_SUFFIXES: Final = (*DATA_SUFFIXES, SNAPSHOT_SUFFIX)
