"""The files of a segment, by the suffixes of their names, as in Kafka."""

from typing import Final

# The records and their indexes; `cleaner` replaces these together.
DATA_SUFFIXES: Final = (".log", ".index", ".timeindex", ".txnindex")
SNAPSHOT_SUFFIX: Final = ".snapshot"
# Including the producer state at the segment's base offset.
SEGMENT_SUFFIXES: Final = (*DATA_SUFFIXES, SNAPSHOT_SUFFIX)
