"""`python -m demo`."""

from __future__ import annotations

import sys

from demo.cli import main

sys.exit(main())
