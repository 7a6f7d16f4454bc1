"""Short runs of the modes `compaction` and `flush`, and of recovery's check of the log, on our broker and on Kafka."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from bench import cli
from bench.modes import recovery
from bench.modes.flush import disk_flushes
from bench.modes.keyed_log import KeyedLog, KeyedLogError, Leftover
from bench.targets.brokers import BrokerCy, Kafka, Target
from bench.window.read_back import read_tail
from bench.wire import protocol
from bench.wire.raw import LoadError
from tests.bench import planned
from tests.bench.short_runs import labels, measure
from tests.support import needs

WORKLOAD = """\
[producers]
batch = "1 B"
rate = "1000 requests/s"
[time]
warm_up = "100 ms"
steady = "0 s"
duration = "300 ms"
"""
SMALL = ("--records", "40000", "--keys", "500")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "scheduled.toml").write_text(WORKLOAD)
    (tmp_path / "synced.toml").write_text(WORKLOAD.replace('rate = "1000 requests/s"\n', ""))
    return tmp_path


@pytest.mark.full
def test_compaction_reports_its_cost(files: Path) -> None:
    """Input, CPU and the remaining log; producers alone and with compaction, and the ratio of their p99."""
    document = measure(files, "compaction", "scheduled", "-t", "ours", *SMALL)
    assert labels(document) == [
        "compaction", "producers alone", "producers beside the compaction", "compaction beside producers",
    ]  # fmt: skip
    alone, _, beside, _ = (run["figures"] for run in document["runs"])
    assert {"input_mb_per_s", "compaction_cpu_s_per_gb", "compaction_s", "left_mb"} <= alone.keys()
    # The records of the active segment (a fifth of the 40,000) and one for each key may remain.
    assert 500 <= alone["left_records"] < 20_000
    assert beside["p99_to_alone"] > 0
    assert document["targets"]["ours"]["settings"]["settings"]["log.cleaner.backoff.ms"] == "100"


@pytest.mark.full
@needs.kafka
def test_compaction_beside_apache_kafka(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both brokers clean the same log, so that their ratios are meaningful."""
    # Kafka removes no file of a deleted topic in its first 30 s: no measurement here would be disturbed.
    monkeypatch.setattr(Kafka, "delete_topic", Target.delete_topic)
    document = measure(files, "compaction", "scheduled", "-t", "ours", "-t", "kafka", *SMALL)
    ratios = {(pair["label"], pair["metric"]) for pair in document["pairs"]}
    assert ("compaction", "input_mb_per_s") in ratios
    assert ("producers beside the compaction", "p99_to_alone") in ratios
    of_each = [run["figures"]["input_gb"] for run in document["runs"] if run["label"] == "compaction"]
    assert of_each[0] == pytest.approx(of_each[1], rel=0.2)


@pytest.mark.parametrize("kind", ["planned", pytest.param("real", marks=pytest.mark.full)])
def test_flush_reports_records_and_syncs_by_depth(files: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Each depth is a run; the number of disk flushes is reported if the kernel counts them."""
    if kind == "planned":
        planned.install(monkeypatch)
    document = measure(files, "flush", "synced", "-t", "ours", "--depths", "1,8")
    assert labels(document) == ["depth 1", "depth 8"]
    for run in document["runs"]:
        assert run["figures"]["records_per_s"] > 0
        assert ("syncs_per_s" in run["figures"]) == (disk_flushes(files) is not None)


@pytest.mark.full
def test_producers_reports_the_cost_of_an_open_one(files: Path) -> None:
    """State that is duplicated or not freed makes a broker with many short-lived producers run out of memory."""
    document = measure(files, "producers", "scheduled", "-t", "ours", "--count", "10000")
    (run,) = document["runs"]
    assert run["figures"]["producers"] == 10_000
    assert 0 < run["figures"]["bytes_per_producer"] < 1000


@pytest.mark.parametrize(
    ("mode", "workload", "arguments", "reported"),
    [
        ("compaction", "synced", [], 'a rate such as "1000 requests/s"'),
        ("compaction", "scheduled", ["--records", "1000"], "--records: 1000 do not fill a segment"),
        ("compaction", "scheduled", ["-t", "floor"], "target floor: the progress of its cleaner"),
        ("compaction", "scheduled", ["-t", "127.0.0.1:1"], "allowed: ours, kafka"),
        ("flush", "scheduled", [], 'acks = "all" and rate = "max"'),
        ("flush", "synced", ["-t", "floor"], "target floor never flushes to the disk"),
        ("producers", "synced", ["-t", "floor"], "target floor: its memory cannot be measured"),
        ("recovery", "synced", ["-t", "127.0.0.1:1"], "cannot be killed and restarted with its log"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    files: Path, capsys: pytest.CaptureFixture[str], mode: str, workload: str, arguments: list[str], reported: str
) -> None:
    """The message names the requirement or the allowed values; exit code 2."""
    argv = [mode, "-w", str(files / f"{workload}.toml"), "--dir", str(files / "data"), *arguments]
    assert cli.main(argv if "-t" in arguments else [*argv, "-t", "ours"]) == 2
    assert reported in capsys.readouterr().err


@pytest.mark.parametrize(
    ("mode", "option", "value"),
    [
        ("compaction", "--keys", "0"),
        ("compaction", "--keys", "20000000"),
        ("compaction", "--records", "ten"),
        ("compaction", "--batch", "2 MB"),
        ("compaction", "--depths", "1"),
        ("flush", "--depths", "0"),
        ("flush", "--depths", "1001"),
        ("flush", "--records", "1000"),
        ("producers", "--count", "999"),
        ("recovery", "--partitions", "10001"),
        ("recovery", "--partitions", ""),
    ],
)
def test_unknown_and_impossible_options_are_refused(files: Path, mode: str, option: str, value: str) -> None:
    """Options that a mode does not know, or that are out of its bounds, end the program with exit code 2."""
    with pytest.raises(SystemExit) as ended:
        cli.main([mode, "-t", "ours", "-w", str(files / "scheduled.toml"), option, value])
    assert ended.value.code == 2


def test_too_much_for_the_disk_is_refused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run is refused before a broker fills a disk that other programs also use."""
    for mode, workload, size in (
        ("recovery", "synced", ["--sizes", "17000 GB"]),
        ("compaction", "scheduled", ["--records", "1000000000", "--keys", "10"]),
    ):
        argv = [mode, "-w", str(files / f"{workload}.toml"), "-t", "ours", "--dir", str(files / "data"), *size]
        if shutil.disk_usage(files).free > 250_000_000_000 and mode == "compaction":
            continue
        assert cli.main(argv) == 1
        assert "GB must be free" in capsys.readouterr().err


def records_of(log: KeyedLog) -> list[tuple[int, bytes, bytes]]:
    """Yield (offset, key, value) of all records, with the offsets that a broker would assign."""
    found: list[tuple[int, bytes, bytes]] = []
    for chunk in log.batches():
        for data, count in chunk:
            records = list(protocol.records_of(data))
            assert [delta for delta, _, _ in records] == list(range(count))
            found += [(len(found) + delta, key or b"", value or b"") for delta, key, value in records]
    return found


def test_the_keyed_log_is_what_the_format_says() -> None:
    """Keys are within their number, and values contain their offset, also if an offset's delta takes two bytes."""
    log = KeyedLog(1_000, 37, 16 << 10)
    assert next(log.batches())[0][1] > 64
    records = records_of(log)
    assert len(records) == 1_000
    assert {int(key[3:]) for _, key, _ in records} == set(range(37))
    assert all(int.from_bytes(value[:8], "big") == offset for offset, _, value in records)
    newest = {int(key[3:]): offset for offset, key, _ in records}
    assert [newest[key] for key in range(37)] == list(log.last)


def planted(records: list[tuple[int, bytes, bytes]], fault: str) -> list[tuple[int, bytes, bytes]]:
    """Return the log that a faulty cleaner would leave."""
    newest: dict[bytes, Any] = {key: (offset, key, value) for offset, key, value in records}
    left = sorted(newest.values())
    (offset, key, value), *others = left
    older = next(record for record in records if record[1] == key)
    return {
        "none": left,
        "a key is lost": others,
        "an old value is left": sorted([older, *others]),
        "a value of another record": [(offset, key, others[0][2]), *others],
        "a damaged value": [(offset, key, value[:-1] + bytes([value[-1] ^ 1])), *others],
        "another key": [(offset, others[0][1], value), *others],
        "out of order": [*others, left[0]],
    }[fault]


@pytest.mark.parametrize(
    "fault",
    [
        "none", "a key is lost", "an old value is left", "a value of another record", "a damaged value", "another key",
        "out of order",
    ],
)  # fmt: skip
def test_what_a_wrong_cleaner_leaves_is_found(fault: str) -> None:
    """Each planted fault fails the run; a correct cleaner does not."""
    log = KeyedLog(1_000, 37, 4 << 10)
    records = records_of(log)

    def check() -> None:
        left = Leftover(log)
        for record in planted(records, fault):
            left.take(*record)
        left.check()

    if fault == "none":
        check()
    else:
        with pytest.raises(KeyedLogError):
            check()


def test_a_missing_last_record_is_found_by_recovery(tmp_path: Path) -> None:
    """Acknowledged records that can no longer be read fail the run."""
    with BrokerCy(tmp_path / "broker").running() as target:
        target.create_topic(recovery.TOPIC, 2)
        read_tail(target, recovery.TOPIC, {0: 1, 1: 1}, 30)
        with pytest.raises(LoadError):
            read_tail(target, recovery.TOPIC, {0: 1, 1: 5}, 1)
