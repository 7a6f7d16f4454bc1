"""The files of a partition's directory, and the small files next to it: one is replaced by a mutant, and the log is
loaded, read, written to and reloaded.
"""

from __future__ import annotations

import logging
import os
import shutil
import struct
import tempfile
import uuid
from pathlib import Path

from broker_cy.core import crc32c
from broker_cy.core.errors import WireError
from broker_cy.storage import checkpoints, data_directory, log_deletion, log_flush, log_truncation
from broker_cy.storage.data_directory import DataDirectoryError
from broker_cy.storage.errors import OffsetOutOfRange, StorageError
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_loader import LoadContext, load_log
from broker_cy.storage.log_slice import LogTotals
from broker_cy.storage.segment import OpenFiles
from broker_cy.wire import control
from broker_cy.wire.records import Record, decode_batches, encode_batch
from tests.fuzz.batch_targets import FIELDS, NOW_MS
from tests.fuzz.mutator import Mutator
from tests.fuzz.target import MIB, Target, text_mutation

CONFIG = LogConfig(segment_bytes=4000, index_interval_bytes=300, segment_ms=1 << 40)
EXPIRATION_MS = 1 << 40
# In the second byte of an input.
POWER_LOST = 32
# Names that no log of the template has, for any content.
STRAY_NAMES = (
    "99999999999999999999.log",
    "09223372036854775807.log",
    "09223372036854775806.index",
    "00000000000000000007.log",
    "00000000000000000031.log.swap",
    "00000000000000000031.index.swap",
    "00000000000000000060.log.cleaned",
    "00000000000000000033.snapshot",
    "00000000000000009999.txnindex",
)


def _batch(offset: int, number: int, codec: int = 0) -> bytes:
    """A batch of 1 to 3 records: without a producer, of an idempotent or of a transactional one."""
    records = [
        Record(timestamp=NOW_MS + number, key=b"%d" % i, value=b"v" * (number % 90)) for i in range(1 + number % 3)
    ]
    kind = number % 4
    if kind == 0:
        return encode_batch(records, base_offset=offset, leader_epoch=number // 20, codec=codec)
    return encode_batch(
        records,
        base_offset=offset,
        leader_epoch=number // 20,
        codec=codec,
        producer_id=kind,
        producer_epoch=0,
        base_sequence=0 if number < 4 else number,
        transactional=kind == 3,
    )


def _marker(offset: int, number: int, commit: bool) -> bytes:
    record = control.encode_control(control.EndTxnMarker(commit, 1), NOW_MS + number)
    return encode_batch(
        [record],
        base_offset=offset,
        leader_epoch=number // 20,
        control=True,
        producer_id=3,
        producer_epoch=0,
        transactional=True,
    )


def write_template(path: str) -> None:
    """A cleanly closed log of several segments, with transactions and leader epochs."""
    log = Log.create(path, "t", 0, CONFIG, NOW_MS)
    for number in range(80):
        if number % 10 == 9:
            log.append(_marker(log.log_end_offset, number, number % 20 == 9), NOW_MS)
        else:
            log.append(_batch(log.log_end_offset, number, number % 5), NOW_MS)
    log_flush.close(log)
    data_directory.write_topic_id(path, uuid.UUID(int=7))


class Directory:
    """A partition's directory in memory, which is restored before each input."""

    def __init__(self) -> None:
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.root = tempfile.mkdtemp(prefix="broker-cy-fuzz-", dir=memory)
        self.path = f"{self.root}/t-0"
        write_template(self.path)
        # Recovery works on the whole log; the part that a later segment's damage does not affect is small.
        self.files = {name: Path(self.path, name).read_bytes() for name in sorted(os.listdir(self.path))}
        self.names = [*self.files, *STRAY_NAMES]
        self.seen: dict[str, tuple[int, int, int]] = {}

    def close(self) -> None:
        shutil.rmtree(self.root)

    def restore(self) -> None:
        """Restore the files that changed."""
        with os.scandir(self.path) as entries:
            found = {entry.name: entry.stat() for entry in entries}
        for name in found.keys() - self.files.keys():
            os.unlink(f"{self.path}/{name}")
        for name, content in self.files.items():
            stat = found.get(name)
            if stat is None or (stat.st_mtime_ns, stat.st_size, stat.st_ino) != self.seen.get(name):
                self.put(name, content)
                stat = os.stat(f"{self.path}/{name}")
                self.seen[name] = (stat.st_mtime_ns, stat.st_size, stat.st_ino)

    def put(self, name: str, content: bytes) -> None:
        with open(f"{self.path}/{name}", "wb") as file:
            file.write(content)


_directories: list[Directory] = []


def directory() -> Directory:
    """Return the directory of this process."""
    if not _directories:
        logging.disable(logging.CRITICAL)
        _directories.append(Directory())
    return _directories[0]


def remove_directory() -> None:
    """Remove the directory."""
    while _directories:
        _directories.pop().close()


# --- an input: number of the file, kind of the last stop and place of the recovery point, content


def log_corpus() -> list[bytes]:
    """Every unchanged file, after a clean stop, after kills with recovery points in several places, and after a power
    loss.
    """
    files = directory()
    logs = [content for name, content in files.files.items() if name.endswith(".log")]
    found = []
    for mode in (0, 1, 2, 3, 5, 1 | POWER_LOST):
        found += [
            bytes((number, mode)) + files.files[name] for number, name in enumerate(files.names) if name in files.files
        ]
    # A log file with a strange name; the corpus has the valid ones, these are inserted by splicing.
    return [*found, bytes((0, 0)) + logs[0]]


def mutate_log(mutator: Mutator, data: bytes, other: bytes) -> bytes:
    """Mutants of log files keep good checksums half of the time, and those of snapshots most of the time."""
    r = mutator.bits(16)
    files = directory()
    head = bytearray(data[:2].ljust(2, b"\0"))
    if r & 15 == 0:
        head[0] = mutator.bits(8)
    if r & 0x30 == 0:
        head[1] = mutator.bits(8)
    name = files.names[head[0] % len(files.names)]
    content = data[2:]
    if name.endswith((".log", ".swap", ".cleaned")) and r & 0x100:
        out = _mutate_one_batch(mutator, content)
    else:
        out = mutator.mutate(content, other[2:])
    if name.endswith(".snapshot") and r & 0x600 and len(out) > 6:
        struct.pack_into(">I", out, 2, crc32c.value(bytes(out[6:])))
    return bytes(head) + bytes(out)


def _mutate_one_batch(mutator: Mutator, content: bytes) -> bytearray:
    out = bytearray(content)
    starts = []
    at = 0
    while at + 61 <= len(out):
        length = struct.unpack_from(">i", out, at + 8)[0]
        if length < 49 or at + 12 + length > len(out):
            break
        starts.append(at)
        at += 12 + length
    if not starts:
        return mutator.mutate(content, content)
    start = starts[mutator.bits(16) % len(starts)]
    end = start + 12 + struct.unpack_from(">i", out, start + 8)[0]
    field, width = FIELDS[mutator.bits(16) % len(FIELDS)]
    mutator.overwrite(out, start + field, width)
    struct.pack_into(">I", out, start + 17, crc32c.value(bytes(out[start + 21 : end])))
    return out


def run_log(data: bytes) -> None:
    """A log that loads is valid: it can be read to its end, or reports where it is damaged, accepts appends, and
    closes.
    """
    files = directory()
    head = data[:2].ljust(2, b"\0")
    files.restore()
    name = files.names[head[0] % len(files.names)]
    files.put(name, data[2:])
    files.seen.pop(name, None)
    mode = head[1]
    power_lost = mode & POWER_LOST != 0
    context = LoadContext(OpenFiles(4), LogTotals(), mode & 1 == 0, NOW_MS, EXPIRATION_MS, power_lost)
    recovery_point = (0, 20, 70, 1 << 62)[mode >> 1 & 3]
    log = load_log(files.path, "t", 0, CONFIG, recovery_point, (0, 0, 0, 25)[mode >> 3 & 3], context)
    try:
        verified = not context.clean and recovery_point == 0
        check_log(log, verified=verified, whole=verified and power_lost)
        log_flush.close(log)
    finally:
        log_flush.mark_closed(log)
    end_offset = log.log_end_offset
    log = load_log(files.path, "t", 0, CONFIG, end_offset, log.log_start_offset, context)
    log_flush.mark_closed(log)
    assert not context.clean or log.log_end_offset == end_offset


def check_log(log: Log, *, verified: bool, whole: bool) -> None:
    """Every operation that a broker does with a log. Damage before the recovery point is found when it is read, by the
    broker or by the client; if everything was `verified`, no damage exists. A `whole` log also has no gap: a power loss
    leaves gaps, and a start removes the data after them.
    """
    assert 0 <= log.log_start_offset <= log.recovery_point <= log.written_end_offset == log.log_end_offset
    assert log.log_end_offset < 2**63 - 1
    log.producers.describe()
    log.producers.encode()
    log.end_offset_for_epoch(1)
    log.last_stable_offset(log.log_end_offset)
    end = log.log_end_offset
    if end < 1 << 62:
        for number in (4, 5, 6, 1, 0):
            data = _batch(log.log_end_offset, number)
            log.producers.check_batch(data)
            log.append(data, NOW_MS)
        assert read_to_end(log, end) > end
    try:
        reached = read_to_end(log, log.log_start_offset, may_have_gaps=not whole)
        assert not verified or reached == log.written_end_offset
    except (StorageError, WireError):
        assert not verified
    try:
        log.max_timestamp()
        for timestamp in (-1, NOW_MS + 30, 1 << 62):
            log.offset_for_timestamp(timestamp)
        log.aborted_transactions(log.log_start_offset, log.log_end_offset)
        log_deletion.delete_records_before(log, (log.log_start_offset + log.log_end_offset) // 2, NOW_MS)
        log_truncation.truncate_to(log, log.log_end_offset - 1, NOW_MS)
    except StorageError:
        return


def read_to_end(log: Log, offset: int, *, may_have_gaps: bool = True) -> int:
    """Fetch until the end as a consumer does; returns the offset that it reached."""
    while offset < log.written_end_offset:
        part = log.read_slice(offset, max_bytes=900)
        if part is None:
            return offset
        last = offset - 1
        for batch in decode_batches(part.read()):
            if not last < batch.last_offset < log.written_end_offset:
                raise StorageError(f"{batch!r} after {last} in a log that ends at {log.written_end_offset}")
            if batch.base_offset > last + 1 and not may_have_gaps:
                raise StorageError(f"{batch!r} after {last} in a log without gaps")
            last = batch.last_offset
        if last < offset:
            raise StorageError("no whole batch in a slice")
        offset = last + 1
    return offset


# --- small files: kind, content


def small_corpus() -> list[bytes]:
    """One of each kind as it is written."""
    pairs = checkpoints.encode_pairs([(0, 0), (3, 17), (2**31 - 1, 2**40)])
    offsets = b"0\n3\ntopic 0 12\nother-topic 7 0\n__consumer_offsets 49 9223372036854775807\n"
    meta = b"#\n#date\nversion=1\ncluster.id=clusterclusterclustert\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAABQ\n"
    clean = b'{"version":0,"brokerEpoch":27}'
    topic = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABw"
    return [bytes((kind,)) + data for kind, data in enumerate((pairs, offsets, meta, clean, topic))]


def run_small(data: bytes) -> None:
    """A damaged file is refused with an error that names it, or treated as missing."""
    kind = (data[0] if data else 0) % 5
    root = directory().root
    names = (
        "leader-epoch-checkpoint",
        checkpoints.RECOVERY_POINTS,
        "meta.properties",
        ".kafka_cleanshutdown",
        "partition.metadata",
    )
    path = f"{root}/{names[kind]}"
    with open(path, "wb") as file:
        file.write(data[1:])
    if kind == 0:
        for epoch, offset in checkpoints.decode_pairs(data[1:], path):
            assert 0 <= epoch < 2**31
            assert 0 <= offset < 2**63
    elif kind == 1:
        for (_, partition), offset in checkpoints.read_entries(path).offsets.items():
            assert 0 <= partition < 2**31
            assert -1 <= offset < 2**63
    elif kind == 2:
        data_directory.DataDirectory(root).read_meta()
    elif kind == 3:
        data_directory.DataDirectory(root).clean_broker_epoch()
    else:
        data_directory.read_topic_id(root)


TARGETS = {
    target.name: target
    for target in (
        # Small files are read into a buffer for the largest possible file; most of the buffer is not touched.
        Target("log_files", log_corpus, run_log, (StorageError, OffsetOutOfRange), 5_000, mutate_log,
               memory_bytes_max=600 * MIB, close=remove_directory),
        Target("small_files", small_corpus, run_small, (ValueError, DataDirectoryError), 20_000, text_mutation,
               memory_bytes_max=900 * MIB, close=remove_directory),
    )
}  # fmt: skip
