"""The files of a batch: one for each table and day.

    LAKE/TABLE/cluster=NAME/batch_id=ID.G.N/day=YYYY-MM-DD/rows.parquet

Readers skip the folders of a batch until it is noted as complete (`spark_analytics.lake`), so files are written in
place: files left by a killed ingest are removed when the batch is written again.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_analytics.lake import synced

FILE = "rows.parquet"
# Rows of a row group, which are held until it is written: 30 to 60 MB of a table.
GROUP_ROWS = 500_000
# Columns that are stored with a dictionary. In the other columns, nearly every value is unique.
_DICTIONARIES = frozenset({
    "broker", "group", "topic", "partition", "api", "phase", "interval_ms", "type", "key", "protocol", "result",
    "reason", "member_id", "client_id", "host", "source", "target", "generation",
})  # fmt: skip


class BatchFiles:
    """Writes a batch to its folders, by table. Raises OSError."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = folders
        self._held: dict[Path, list[pa.Table]] = {}
        self._writers: dict[Path, pq.ParquetWriter] = {}
        self._stack = ExitStack()

    def __enter__(self) -> BatchFiles:
        for folder in self._folders.values():
            if folder.exists():
                shutil.rmtree(folder)
        return self

    def add(self, tables: Mapping[str, pa.Table]) -> None:
        """Add rows to the files of their days."""
        for name, found in tables.items():
            days = found["day"]
            without = found.drop_columns("day")
            for day in pc.unique(days):
                folder = self._folders[name] / f"day={day.as_py():%Y-%m-%d}"
                held = self._held.setdefault(folder, [])
                held.append(without.filter(pc.equal(days, day)))
                if sum(map(len, held)) >= GROUP_ROWS:
                    self._write(folder)

    def _write(self, folder: Path) -> None:
        held = pa.concat_tables(self._held[folder])
        self._held[folder] = []
        if (known := self._writers.get(folder)) is None:
            folder.mkdir(parents=True, exist_ok=True)
            names = [each for each in held.column_names if each in _DICTIONARIES]
            known = self._stack.enter_context(pq.ParquetWriter(folder / FILE, held.schema, use_dictionary=names))
            self._writers[folder] = known
        known.write_table(held, row_group_size=GROUP_ROWS * 2)

    def complete(self) -> None:
        """Write the held rows; afterwards everything is on the disk."""
        for folder in [each for each, held in self._held.items() if held]:
            self._write(folder)
        for folder, writer in self._writers.items():
            writer.close()
            # The file, and the entries of the folders that were created for it.
            for each in (folder / FILE, folder, *folder.parents[:3]):
                synced(each)

    def __exit__(self, *_: object) -> None:
        self._stack.close()
