"""Write tests/broker_cy/wire/kafka_vectors.tsv.gz: a message of every kind and version as Kafka 4.3.1 itself writes it.

Needs a JDK and Maven. Run it from the repository's root when the tables change: `python -m tools.kafka_vectors.make`.
The file is committed so that tests need no Java compiler.
"""

import gzip
import subprocess
import tempfile
from pathlib import Path

from bench.launch.kafka_dist import kafka_classpath
from broker_cy.wire import codec
from tests.broker_cy.wire.random_messages import ALL, Generator

HERE = Path(__file__).parent
TARGET = HERE.parent.parent / "tests" / "broker_cy" / "wire" / "kafka_vectors.tsv.gz"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder, "ours.txt"), Path(folder, "theirs.tsv")
        lines = []
        for name, version in ALL:
            message = Generator((name, version, "kafka"), elements_max=2).message(name, version)
            lines.append(f"{name} {version} {codec.encode(message, version).hex()}\n")
        ours.write_text("".join(lines))
        subprocess.run(["java", "-cp", kafka_classpath(), HERE / "KafkaVectors.java", ours, theirs], check=True)
        # Without a time stamp, so that the same vectors produce the same file.
        TARGET.write_bytes(gzip.compress(theirs.read_bytes(), 9, mtime=0))


if __name__ == "__main__":
    main()
