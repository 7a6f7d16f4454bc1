"""The highest rate of one copy: from a file by sendfile through a TCP connection of the loopback interface into a file.

This is the minimum cost of filling a replica, without checksums and without a protocol.
"""

import os
import socket
import threading
import time
from pathlib import Path

PIECE_BYTES = 1 << 20


def copy_mb_per_s(directory: Path, size_bytes: int) -> float:
    """Copy `size_bytes` within a directory and return the rate in MB/s (10^6 bytes); the source is in the page cache.

    Both files are removed. Raises OSError.
    """
    source, target = directory / "bench-copy.source", directory / "bench-copy.target"
    try:
        piece = os.urandom(PIECE_BYTES)
        with open(source, "wb") as file:
            for _ in range(max(1, size_bytes // PIECE_BYTES)):
                file.write(piece)
        written = source.stat().st_size
        with socket.create_server(("127.0.0.1", 0)) as server:
            begun = time.monotonic()
            sender = threading.Thread(target=_send, args=(server.getsockname(), source))
            sender.start()
            try:
                received = _receive(server, target)
            finally:
                sender.join()
            seconds = time.monotonic() - begun
        if received != written:
            raise OSError(f"{received} of {written} bytes came through the loopback interface")
        return written / seconds / 1e6
    finally:
        source.unlink(missing_ok=True)
        target.unlink(missing_ok=True)


def _send(address: tuple[str, int], path: Path) -> None:
    with socket.create_connection(address) as connection, open(path, "rb") as file:
        connection.sendfile(file)


def _receive(server: socket.socket, path: Path) -> int:
    """Write the data that one connection sends; returns its size."""
    connection, _ = server.accept()
    buffer = memoryview(bytearray(PIECE_BYTES))
    received = 0
    with connection, open(path, "wb", buffering=0) as file:
        while got := connection.recv_into(buffer):
            file.write(buffer[:got])
            received += got
    return received
