"""Run the floor server: `python -m bench.targets.floor_server DIRECTORY`; prints HOST:PORT when it listens."""

import signal
import sys

from bench.targets.floor import FloorServer


def main() -> int:
    """Serve until SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    server = FloorServer(sys.argv[1])
    host, port = server.address
    print(f"{host}:{port}", flush=True)
    server.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
