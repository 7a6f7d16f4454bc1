"""One client as a process of its own: `python -m bench.drivers.client_process FD`, started by bench.drivers.librdkafka.

It ends when its parent closes the socket, whatever the parent died of.
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
    """Be the client that the first message describes. Raises EOFError or OSError when the parent is gone."""
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
                if message[0] != "run":  # the end of a run that has ended already
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
    """Ctrl-C goes to the whole group of processes: the parent hears it, and ends its clients in order."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, OSError):
        serve(Connection(int(sys.argv[1])))
    sys.stderr.flush()
    os._exit(0)  # librdkafka would wait for what it has under way; no process is left to receive it


if __name__ == "__main__":
    main()
