"""The operations that are counted: each has one request in flight on one connection and checks every response.

JoinGroup 1, SyncGroup 0, Heartbeat 4, ConsumerGroupHeartbeat 1 and ShareGroupHeartbeat 1 are encoded by hand, as in
bench.wire.protocol.
"""

import contextlib
import fcntl
import select
import socket
import struct
import termios
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench.modes import offsets
from bench.targets.brokers import Address
from bench.wire import protocol
from bench.wire.protocol import Client, ProtocolError, Template, check, compact

JOIN_GROUP, HEARTBEAT, SYNC_GROUP, CONSUMER_GROUP_HEARTBEAT, SHARE_GROUP_HEARTBEAT = 11, 12, 14, 68, 76
PARTITION = 0
RECORD_BYTES, BATCH_BYTES, FETCH_BYTES = 100, 16 << 10, 1 << 20
GROUP, TOPIC = "bench-check", "bench-check"
SESSION_MS = 300_000  # longer than a run: no member expires while callgrind is slow
ANSWER_TIMEOUT_S = 30
RECEIVE_BUFFER_BYTES = 208 << 10  # Linux's default net.core.rmem_max; a buffer of a set size does not grow
Operation = Callable[[], None]

# Operations, and their requests in one counted window: enough that timers stay far below one percent of the count.
REQUESTS = {"produce 16 KiB batch of 100 B records": 400, "produce one 100 B record": 800, "fetch 1 MB": 200}
REQUESTS |= {"heartbeat": 800, "consumer group heartbeat": 800, "share group heartbeat": 800}
NULL = b"\0"


def prepare(address: Address, pid: int, stack: ExitStack) -> dict[str, Operation]:
    """Create topics and a group on the broker with process id `pid`, and connect; returns the operations by name.

    Each call sends one request and checks its response. Raises OSError and ProtocolError, as do the operations."""
    batch, records = protocol.largest_batch(RECORD_BYTES, BATCH_BYTES)
    single = protocol.record_batch(RECORD_BYTES, 1)
    with Client(address) as client:
        for topic in ("batches", "singles", "backlog"):
            client.create_topic(f"{TOPIC}-{topic}", 1, {})
    batches, singles, fetching, member, consumer, sharer = (stack.enter_context(Client(address)) for _ in range(6))
    backlog = protocol.produce_request(f"{TOPIC}-backlog", PARTITION, batch, records)
    fetching.produce_when_ready(backlog)
    for _ in range(FETCH_BYTES // len(batch) + 1):
        fetching.produce(backlog)
    of_batches = protocol.produce_request(f"{TOPIC}-batches", PARTITION, batch, records)
    of_singles = protocol.produce_request(f"{TOPIC}-singles", PARTITION, single, 1)
    batches.produce_when_ready(of_batches)
    singles.produce_when_ready(of_singles)
    of_backlog = protocol.fetch_request(f"{TOPIC}-backlog", PARTITION, FETCH_BYTES)
    fetch = fetch_same(fetching, of_backlog, len(batch), pid)
    producing = (partial(produce, batches, of_batches), partial(produce, singles, of_singles))
    names = b"\x02" + compact(TOPIC.encode())
    # Neither instance id nor rack; of the rest, neither expression, assignor nor partitions.
    joining = NULL * 2 + struct.pack(">i", SESSION_MS) + names + NULL * 2 + b"\x01" + NULL
    steady = NULL * 2 + struct.pack(">i", -1) + NULL * 5
    of_consumer = join_modern_group(consumer, CONSUMER_GROUP_HEARTBEAT, joining, steady)
    # No rack.
    of_sharer = join_modern_group(sharer, SHARE_GROUP_HEARTBEAT, NULL + names + NULL, NULL * 3)
    made = (*producing, fetch, join(member), of_consumer, of_sharer)
    return dict(zip(REQUESTS, made, strict=True))


def produce(client: Client, template: Template) -> None:
    client.produce(template)


def fetch_same(client: Client, template: Template, batch_bytes: int, pid: int) -> Operation:
    """Return an operation that fetches from offset 0 and checks that the response equals the first one.

    The first response is requested and checked here."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)

    def once() -> bytes:
        client.correlation_id += 1
        frame = template.frame[:8] + struct.pack(">i", client.correlation_id) + template.frame[12:]
        client.socket.sendall(frame)
        answer = receive_in_step(client.socket, pid)
        if (got := struct.unpack_from(">i", answer)[0]) != client.correlation_id:
            raise ProtocolError(f"correlation id {got}, expected {client.correlation_id}")
        return answer[4:]

    first = once()
    reader = protocol.Reader(first)
    reader.tags()
    reader.take(4)
    check(reader.number(2), "Fetch")
    reader.take(4 + 1)  # session; the response has one topic
    reader.string()
    reader.take(1 + 4)
    check(reader.number(2), "Fetch")
    if not FETCH_BYTES - batch_bytes < len(first) < FETCH_BYTES + batch_bytes:
        raise ProtocolError(f"Fetch of {FETCH_BYTES} bytes: a response of {len(first)} bytes")

    def operation() -> None:
        if once() != first:
            raise ProtocolError("two responses to the same Fetch differ")

    return operation


def receive_in_step(connection: socket.socket, pid: int) -> bytes:
    """Receive the next response, without its size, of the broker with process id `pid`. Reads only while the broker
    sleeps: it has then filled the socket's buffers or sent everything.

    If a client reads while the broker writes, the number of pieces of the response is random, and the count varies by a
    fifth with it. Raises TimeoutError and ConnectionResetError."""
    answer = bytearray()
    while len(answer) < 4 or len(answer) < 4 + struct.unpack_from(">i", answer)[0]:
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while not (ready := readable_bytes(connection)) or not asleep(pid) or readable_bytes(connection) != ready:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no complete response within {ANSWER_TIMEOUT_S} s: {len(answer)} bytes")
            time.sleep(0.0001)
        answer += connection.recv(ready)
    return bytes(answer[4:])


def readable_bytes(connection: socket.socket) -> int:
    """Return the number of received bytes that are not read yet (FIONREAD).

    Raises ConnectionResetError if the connection is closed."""
    found = int(struct.unpack("i", fcntl.ioctl(connection, termios.FIONREAD, bytes(4)))[0])
    if not found and select.select([connection], [], [], 0)[0] and not connection.recv(1, socket.MSG_PEEK):
        raise ConnectionResetError("the broker closed the connection")
    return found


def asleep(pid: int) -> bool:
    """Return whether every thread of the process sleeps (state S of /proc/PID/task/TID/stat)."""
    for status in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            if status.read_text().rpartition(") ")[2][:1] != "S":
                return False
    return True


def join(client: Client) -> Operation:
    """Become the only member of a group; returns the operation of its heartbeat."""
    offsets.until_ready(partial(offsets.find, client, GROUP))
    found: list[tuple[int, bytes]] = []

    def ask() -> int:
        body = offsets.text(GROUP) + struct.pack(">ii", SESSION_MS, SESSION_MS) + offsets.text("")
        body += offsets.text("consumer") + struct.pack(">i", 1) + offsets.text("range") + struct.pack(">i", 0)
        reader = client.call(JOIN_GROUP, 1, body, flexible=False)
        code, generation = reader.number(2), reader.number(4)
        reader.take(reader.number(2))  # the protocol
        reader.take(reader.number(2))  # the leader
        found.append((generation, reader.take(reader.number(2))))
        return code

    offsets.until_ready(ask)
    generation, member = found[-1]
    name = struct.pack(">h", len(member)) + member
    assignment = struct.pack(">i", 1) + name + struct.pack(">i", 1) + b"\0"
    body = offsets.text(GROUP) + struct.pack(">i", generation) + name + assignment
    check(client.call(SYNC_GROUP, 0, body, flexible=False).number(2), "SyncGroup")
    body = compact(GROUP.encode()) + struct.pack(">i", generation) + compact(member) + b"\0\0"

    def operation() -> None:
        reader = client.call(HEARTBEAT, 4, body)
        reader.take(4)
        check(reader.number(2), "Heartbeat")

    return operation


def join_modern_group(client: Client, key: int, joining: bytes, steady: bytes) -> Operation:
    """Return the operation of the heartbeat `key`, version 1, of the only member of a consumer group (KIP-848) or share
    group (KIP-932). Its topic does not exist. `joining` and `steady` are the fields after the member epoch. The first
    call joins: its session would not last until then."""
    named = compact(f"{GROUP}-{key}".encode()) + compact(b"member")
    offsets.until_ready(partial(offsets.find, client, f"{GROUP}-{key}"))
    found: list[int] = []

    def ask() -> int:
        code, epoch = beat(client, key, named + struct.pack(">i", 0) + joining)
        found.append(epoch)
        return code

    def operation() -> None:
        if not found:
            offsets.until_ready(ask)
        code, epoch = beat(client, key, named + struct.pack(">i", found[-1]) + steady)
        check(code, f"heartbeat {key}")
        if epoch != found[-1]:
            raise ProtocolError(f"heartbeat {key}: member epoch {epoch}, expected {found[-1]}")

    return operation


def beat(client: Client, key: int, body: bytes) -> tuple[int, int]:
    """Send a heartbeat; returns the error code and the member epoch of the response."""
    reader = client.call(key, 1, body)
    reader.take(4)
    code = reader.number(2)
    reader.string()
    reader.string()
    return code, reader.number(4)
