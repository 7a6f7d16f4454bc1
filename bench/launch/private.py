"""Files with secrets."""

import os
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
