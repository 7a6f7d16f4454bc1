"""Workload and target files: every key counts; an error names file, line, key and the allowed values."""

from pathlib import Path

import pytest

from bench.spec import target, workload
from bench.spec.target import TargetSpec
from bench.spec.workload import Rate, Transactions, Workload
from broker_cy.client.payload.draws import Size
from broker_cy.client.toml_file import SpecError

SPECS = Path(workload.__file__).parent.parent / "specs"
WHOLE = """\
driver = "librdkafka"
partitions = 8
[records]
size = { min = "10 B", max = "1 KB", distribution = "lognormal" }
keys = 1000
key_size = "16 B"
entropy = 0.25
[producers]
count = 3
acks = 1
codec = "zstd"
batch = "32 KiB"
linger = "20 ms"
in_flight = 7
rate = { from = "1000 records/s", to = "2000 records/s", over = "10 s" }
[consumers]
count = 2
fetch = "2 MiB"
[time]
warm_up = "500 ms"
steady = "45 s"
duration = "1 min"
"""


def read_workload(tmp_path: Path, text: str) -> Workload:
    (tmp_path / "w.toml").write_text(text)
    return workload.load(tmp_path / "w.toml")


def read_target(tmp_path: Path, text: str) -> TargetSpec:
    (tmp_path / "t.toml").write_text(text)
    return target.load(tmp_path / "t.toml")


def test_every_key_of_a_workload_arrives(tmp_path: Path) -> None:
    """If a key is read and then ignored, something other than the file's workload is measured."""
    assert read_workload(tmp_path, WHOLE) == Workload(
        "w", "librdkafka", 8, Size(10, 1000, "lognormal"), 1000, 16, 0.25, 3, "1", "zstd", 32768, 0.02, 7,
        Rate(1000, 2000, "records", 10), 2, 2 << 20, 0.5, 60.0, 45.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "reported"),
    [
        (WHOLE.replace("linger", "lingr"), "w.toml:13: producers.lingr: unknown key; did you mean 'linger'? (allowed:"),
        (WHOLE.replace('"20 ms"', '"20 msec"'), "w.toml:13: producers.linger: '20 msec' has the unit 'msec' (allowed:"),
        (WHOLE.replace('"20 ms"', "20"), "w.toml:13: producers.linger: 20 is not a duration"),
        (WHOLE.replace("entropy = 0.25", "entropy = 2"), "w.toml:7: records.entropy: 2 is not a number from 0 to 1"),
        (WHOLE.replace("= 8", "= 0"), "w.toml:2: partitions: 0 is out of range (allowed: 1 to 10000)"),
        (WHOLE.replace('"zstd"', '"brotli"'), "producers.codec: 'brotli' is not allowed (allowed: none, gzip"),
        (WHOLE.replace('"10 B"', '"2 KB"'), "records.size: min '2 KB' is above max '1 KB'"),
        (WHOLE.replace('"2000 records/s"', '"2000 requests/s"'), "from is in records, to in requests"),
        (WHOLE.replace("acks = 1", "acks = 2"), "w.toml:10: producers.acks: 2 is not allowed (allowed: \"all\", 1, 0)"),
        (WHOLE.replace("count = 3", "count = 0").replace("count = 2", "count = 0"), "nothing to measure"),
        (WHOLE.replace("[records]", "[records"), "w.toml:3: not TOML"),
        ("[record]\nsize = 1\n", "w.toml:1: record: unknown key; did you mean 'records'?"),
        (WHOLE.replace("acks = 1", "acks = true"), "w.toml:10: producers.acks: True is not allowed (allowed:"),
        (WHOLE.replace("acks = 1", "acks = 1.0"), "w.toml:10: producers.acks: 1.0 is not allowed (allowed:"),
        (WHOLE.replace("keys = 1000", "keys = true"), "w.toml:5: records.keys: True is not a whole number (allowed: 0"),
        (WHOLE.replace("keys = 1000", "keys = -1"), "w.toml:5: records.keys: -1 is out of range (allowed: 0 to"),
        (WHOLE.replace("0.25", "nan"), "w.toml:7: records.entropy: nan is not a number from 0 to 1"),
        (WHOLE.replace("0.25", "inf"), "w.toml:7: records.entropy: inf is not a number from 0 to 1"),
        (WHOLE.replace('"1 min"', "inf"), "w.toml:22: time.duration: inf is not a duration (a number and its unit"),
        (WHOLE.replace('"1 min"', '"0 s"'), "w.toml:22: time.duration: '0 s' is out of range (allowed: 0.1 s to"),
        (WHOLE.replace('"32 KiB"', '"-1 KiB"'), "w.toml:12: producers.batch: '-1 KiB' is not a size"),
        (WHOLE.replace('"32 KiB"', f'"{"9" * 400} B"'), "w.toml:12: producers.batch: '99999999999999999999"),
        (WHOLE.replace('"32 KiB"', f'"{"9" * 308} GiB"'), "w.toml:12: producers.batch: '99999999999999999999"),
        (WHOLE.replace('"zstd"', '["zstd"]'), "w.toml:11: producers.codec: ['zstd'] is not allowed (allowed: none"),
        ("\n\nproducers.count = -1\n", "w.toml:3: producers.count: -1 is out of range (allowed: 0 to 10000)"),
        ("producers = 3\n", "w.toml:1: producers: 3 is not a table"),
        ('"a[b" = 1\n', "w.toml:1: a[b: unknown key"),
        ("a = " + "[" * 100_000, "w.toml:1: nested too deeply"),
    ],
)  # fmt: skip
def test_a_wrong_workload_is_refused_at_its_line(tmp_path: Path, wrong: str, reported: str) -> None:
    """A user who mistypes a key must not get a measurement of the default."""
    with pytest.raises(SpecError) as refused:
        read_workload(tmp_path, wrong)
    assert reported in str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "reported"),
    [
        ('kind = "redpanda"', "t.toml:1: kind: 'redpanda' is not allowed (allowed: ours, kafka, floor, address)"),
        ("[settings]\n", "t.toml:1: kind: is missing"),
        ('kind = "address"', "bootstrap: is required"),
        (
            'kind = "address"\nbootstrap = "here"',
            "t.toml:2: bootstrap: 'here' is not an address: HOST:PORT is expected",
        ),
        ('kind = "ours"\npid = 3', "t.toml:2: pid: only for"),
        ('kind = "ours"\njvm = ["-Xmx1G"]', "t.toml:2: jvm: only for"),
        ('kind = "ours"\n[settings]\nlog.retention.ms = 1', "quote names with dots"),
    ],
)
def test_a_wrong_target_is_refused_at_its_line(tmp_path: Path, wrong: str, reported: str) -> None:
    """The same for targets."""
    with pytest.raises(SpecError) as refused:
        read_target(tmp_path, wrong)
    assert reported in str(refused.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A traceback does not say which of forty files it was."""
    (tmp_path / "latin.toml").write_bytes(b"# ok\nname = '\xe4'\n")
    (tmp_path / "empty.toml").write_bytes(b"")
    for name, reported in [
        ("latin.toml", "latin.toml:2: not UTF-8: byte 0xe4"),
        (".", "cannot be read: Is a directory"),
        ("nowhere.toml", "nowhere.toml: cannot be read: No such file or directory"),
        ("empty.toml", "empty.toml:1: kind: is missing"),
    ]:
        with pytest.raises(SpecError) as refused:
            target.load(tmp_path / name)
        assert reported in str(refused.value)
    assert workload.load(tmp_path / "empty.toml").driver == "raw"  # every key of a workload is optional


def test_a_target_keeps_its_settings_by_kafkas_names(tmp_path: Path) -> None:
    """If a setting is not passed on, another broker is measured."""
    found = read_target(tmp_path, 'kind = "kafka"\njvm = ["-Xmx2G"]\n[settings]\n"log.retention.ms" = 5\n')
    settings = {"log.retention.ms": "5", "log.segment.delete.delay.ms": "1000"}  # the second is the tool's own
    assert found == TargetSpec("t", "kafka", None, None, settings, ("-Xmx2G",))
    assert read_target(tmp_path, 'kind = "floor"').settings == {}


def test_the_files_that_come_with_the_tool_are_right() -> None:
    """These are what a new user tries first."""
    assert {workload.load(path).name for path in (SPECS / "workloads").glob("*.toml")}
    assert {target.load(path).kind for path in (SPECS / "targets").glob("*.toml")} >= {"ours", "kafka"}


TRANSACTIONAL = """\
[consumers]
isolation = "read_committed"
count = 1
[producers]
count = 0
[transactions]
records = 400
aborted = 0.1
ids = 2
"""


def test_keys_of_transactions_arrive(tmp_path: Path) -> None:
    """If the share of aborts is ignored, another log is measured."""
    found = read_workload(tmp_path, TRANSACTIONAL)
    assert (found.isolation, found.producers) == ("read_committed", 0)
    assert found.transactions == Transactions("transactions", 400, 0.1, 2)
    assert read_workload(tmp_path, '[transactions]\nmeasure = "known-ids"\n').transactions == Transactions(
        "known-ids", ids=1000
    )
    assert read_workload(tmp_path, "[transactions]\n").producers == 1
    plain = read_workload(tmp_path, "[producers]\nidempotent = true\n")
    assert (plain.idempotent, plain.isolation, plain.transactions) == (True, "read_uncommitted", None)


@pytest.mark.parametrize(
    ("wrong", "reported"),
    [
        ("[producers]\nidempotent = 1\n", "w.toml:2: producers.idempotent: 1 is not allowed (allowed: true, false)"),
        ("[producers]\nidempotent = true\nacks = 1\n", 'needs acks = "all" and in_flight of at most 5'),
        ("[producers]\nidempotent = true\nin_flight = 6\n", 'needs acks = "all" and in_flight of at most 5'),
        ('driver = "kafka"\n[producers]\nidempotent = true\n', "Kafka's own tools are idempotent wherever"),
        (
            TRANSACTIONAL.replace("read_", "reed_"),
            "consumers.isolation: 'reed_committed' is not allowed; did you mean 'read_committed'? (allowed: read_",
        ),
        ('driver = "kafka"\n[consumers]\nisolation = "read_committed"\n', "Kafka's own tools read with read_unc"),
        (TRANSACTIONAL.replace("aborted", "abort"), "transactions.abort: unknown key; did you mean 'aborted'?"),
        (TRANSACTIONAL.replace("0.1", "1.1"), "w.toml:8: transactions.aborted: 1.1 is not a number from 0 to 1"),
        (TRANSACTIONAL.replace("400", "3"), "w.toml:7: transactions.records: 3 are too few for 4 partitions"),
        (TRANSACTIONAL.replace("count = 0", "count = 1"), "exactly 1 producer, or 0 if consumers read"),
        ("[producers]\ncount = 2\n[transactions]\n", "transactions have exactly 1 producer"),
        ('driver = "librdkafka"\n[transactions]\n', 'transactions: only with driver = "raw"'),
        ('[producers]\nbatch = "1 KB"\n[transactions]\n', "producers.batch: has no effect on transactions"),
        (TRANSACTIONAL + 'measure = "new-ids"\n', "writes nothing to be read"),
        ('[transactions]\nmeasure = "new-ids"\nids = 3\n', "transactions.ids: has no effect on 'new-ids'"),
        (
            '[transactions]\nmeasure = "ids"\n',
            "'ids' is not allowed; did you mean 'new-ids'? (allowed: transactions, new-ids, known-ids)",
        ),
    ],
)
def test_what_is_wrong_with_transactions_is_reported(tmp_path: Path, wrong: str, reported: str) -> None:
    """The error names the key and the allowed values: no request is silently ignored."""
    with pytest.raises(SpecError) as caught:
        read_workload(tmp_path, wrong)
    assert reported in str(caught.value)
