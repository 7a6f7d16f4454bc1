"""Answers whether protoc takes a text: a line in JSON for each line in JSON, an empty text or the error. Runs in an
environment with grpcio-tools.
"""

from __future__ import annotations

import importlib.resources
import json
import os
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc  # type: ignore[import-not-found]


def main() -> None:
    include = importlib.resources.files("grpc_tools") / "_proto"
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryFile("w+") as errors:
        file = Path(name) / "text.proto"
        # protoc writes to the descriptor itself.
        os.dup2(errors.fileno(), 2)
        for line in sys.stdin:
            file.write_text(json.loads(line), encoding="utf-8")
            errors.seek(0)
            errors.truncate()
            code = protoc.main(["protoc", f"-I{name}", f"-I{include}", "--descriptor_set_out=/dev/null", str(file)])
            errors.seek(0)
            print(json.dumps("" if code == 0 else errors.read() or "refused"), flush=True)


if __name__ == "__main__":
    main()
