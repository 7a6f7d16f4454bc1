"""The load driver: it checks every response, and attributes a stall to the side that caused it."""

import contextlib
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.measuring import proc
from bench.wire import protocol
from bench.wire.raw import Driver, LoadError, crc32c

TOPIC = "t"
Answer = Callable[[int, int], bytes | None]  # number of the request, correlation id -> response without its size


def produced(correlation_id: int, base_offset: int, error: int = 0, partition: int = 0) -> bytes:
    """A Produce v12 response for one partition."""
    body = struct.pack(">ib", correlation_id, 0) + b"\x02" + protocol.compact(TOPIC.encode()) + b"\x02"
    body += struct.pack(">ihqqq", partition, error, base_offset, -1, 0) + b"\x01\x00\x00\x00"
    return body + struct.pack(">i", 0) + b"\0"


@contextlib.contextmanager
def fake_broker(answer: Answer) -> Iterator[tuple[str, int]]:
    """Serves one connection at a time; `answer` gives the response to each complete frame (None: close the
    connection).
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    with peer, peer.makefile("rb") as stream:
                        _answer_all(peer, stream.read, answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def _answer_all(peer: socket.socket, read: Callable[[int], bytes], answer: Answer) -> None:
    number = 0
    while size := read(4):
        frame = read(struct.unpack(">i", size)[0])
        reply = answer(number, struct.unpack_from(">i", frame, 4)[0])
        if reply is None:
            return
        peer.sendall(struct.pack(">i", len(reply)) + reply)
        number += 1


def driver_for(address: tuple[str, int], records: int = 1) -> Driver:
    batch = protocol.record_batch(10, records)
    return Driver(address, [[protocol.produce_request(TOPIC, 0, batch, records)]])


def test_closed_loop_sends_exactly_what_was_asked_and_counts_it() -> None:
    """A wrong count would make every cost per request wrong."""
    with fake_broker(lambda number, correlation: produced(correlation, 3 * number)) as address:
        driver = driver_for(address, records=3)
        driver.run_closed(depth=4, requests=50, seconds=30)
        driver.run_closed(depth=4, requests=7, seconds=30)
        assert (driver.responses, driver.records, driver.latency.count, driver.errors) == (7, 21, 7, 0)
        assert driver.next_offsets(1) == {0: 3 * 57}
        driver.close()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            lambda number, correlation: produced(correlation, number, error=6),
            r"Produce error 6 on partition 0 \(20 err",
        ),
        (lambda number, correlation: produced(correlation + 1, number), "correlation id 1 is not the oldest"),
        (lambda number, correlation: produced(correlation, 0), "base offset 0, but 1 was due"),
        (lambda number, correlation: produced(correlation, number, partition=1), "does not parse"),
        (lambda number, correlation: produced(correlation, number)[:20], "does not parse"),
        (lambda number, correlation: None, "closed the connection"),
    ],
    ids=["error code", "correlation id", "offset again", "other partition", "cut short", "hang-up"],
)
def test_a_wrong_answer_fails_the_run(answer: Answer, words: str) -> None:
    """A broker that is fast because its responses are invalid must not get a figure."""
    with fake_broker(answer) as address:
        driver = driver_for(address)
        with pytest.raises(LoadError, match=words):
            driver.run_closed(depth=2, requests=20, seconds=30)
        driver.close()


@pytest.mark.full
def test_open_loop_charges_a_stall_to_every_request_it_kept_waiting() -> None:
    """Latency from the actual send would hide all but one of them (coordinated omission)."""
    stall_s = 0.2

    def answer(number: int, correlation: int) -> bytes:
        if number == 10:
            time.sleep(stall_s)
        return produced(correlation, number)

    with fake_broker(answer) as address:
        driver = driver_for(address)
        driver.run_open(rate=500, seconds=0.5)
        driver.close()
    assert driver.responses == 250
    assert driver.lateness.count == 250
    # 100 requests are due during the stall, so about 50 of the 250 exceed half of the stall.
    assert driver.latency.percentile(85) > stall_s / 2 * 1e9


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    with fake_broker(lambda number, correlation: None) as address:
        driver = driver_for(address)
        with pytest.raises(ValueError, match="depth 0"):
            driver.run_closed(depth=0, requests=1, seconds=1)
        with pytest.raises(ValueError, match="nothing to send"):
            driver.run_open(rate=10, seconds=0)
        with pytest.raises(ValueError, match="partition 10000"):
            Driver(address, [[protocol.produce_request(TOPIC, 10_000, b"", 0)]])
        driver.close()


def test_floor_takes_and_gives_back_what_the_driver_checks(tmp_path: Path) -> None:
    """The floor must do all the work of the minimum (offsets, bytes, checksums), or every ratio to it is unfair."""
    command = [sys.executable, "-m", "bench.targets.floor_server", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]) as process:
        try:
            assert process.stdout is not None
            host, _, port = process.stdout.readline().decode().strip().rpartition(":")
            address = host, int(port)
            with protocol.Client(address) as client:
                client.api_versions()
            batch, count = protocol.largest_batch(100, 16384)
            driver = Driver(address, [[protocol.produce_request(TOPIC, p, batch, count) for p in range(2)]])
            driver.run_closed(depth=5, requests=400, seconds=30)
            ends = driver.next_offsets(2)
            driver.close()
            assert ends == {0: 200 * count, 1: 200 * count}
            assert (tmp_path / "1.log").stat().st_size == 200 * len(batch)
            fetches = [[protocol.fetch_request(TOPIC, p, 1 << 20) for p in range(2)]]
            driver = Driver(address, fetches, fetching=True, wrap_at=ends)
            driver.run_closed(depth=1, requests=20, seconds=30, check_crc=True)
            driver.close()
            assert driver.records > 2 * 200 * count  # more than one round
            assert proc.usage(process.pid).written_bytes >= 400 * len(batch)
        finally:
            process.kill()


def test_crc32c_check_value() -> None:
    """The check value of CRC-32C (RFC 3720, B.4)."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"") == 0


def test_largest_batch_fits_and_leaves_no_room_for_another_record() -> None:
    """A batch above message.max.bytes is refused; one far below is another workload."""
    for value_bytes, limit in ((100, 16384), (1024, 1 << 20)):
        batch, count = protocol.largest_batch(value_bytes, limit)
        assert len(batch) <= limit < len(protocol.record_batch(value_bytes, count + 1))
        assert struct.unpack_from(">i", batch, 57)[0] == count
