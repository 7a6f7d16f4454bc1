"""One client as a separate process: `python -m bench.drivers.client_process FD`, started by bench.drivers.librdkafka.

It ends when its parent closes the socket, however the parent ends.
"""

import contextlib
import os
import signal
import sys
from multiprocessing.connection import Connection

from confluent_kafka import KafkaException

from bench.drivers.client_consumer import ConsumerClient
from bench.drivers.client_parts import ClientError, ClientSpec, Control
from bench.drivers.client_producer import ProducerClient

IDLE_S = 0.05


def serve(connection: Connection) -> None:
    """Run the client that the first message describes. Raises EOFError or OSError when the parent has ended."""
    spec: ClientSpec = connection.recv()
    client: ProducerClient | ConsumerClient
    try:
        if spec.role == "consumer":
            client = ConsumerClient(spec, lambda partitions: connection.send(("assigned", partitions)))
        else:
            client = ProducerClient(spec)
        connection.send(("ready", client.partitions))
        control = Control(connection)
        try:
            while True:
                while not connection.poll(IDLE_S):
                    if isinstance(client, ConsumerClient):
                        client.idle()
                message = connection.recv()
                if message[0] != "run":  # ends a run that has already ended
                    continue
                _, start_ns, seconds = message
                control.begin()
                result, received = client.run(start_ns, seconds, control, lambda s: connection.send(("sample", s)))
                connection.send(("done", result, received))
        finally:
            with contextlib.suppress(KafkaException, RuntimeError):
                client.close()
    except (ClientError, KafkaException, ValueError) as error:
        connection.send(("failed", str(error)))


def main() -> None:
    """Run the client. Ignores Ctrl-C, which goes to the whole process group: the parent ends its clients in order."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, OSError):
        serve(Connection(int(sys.argv[1])))
    sys.stderr.flush()
    os._exit(0)  # librdkafka would wait for outstanding requests whose results would be lost


if __name__ == "__main__":
    main()
