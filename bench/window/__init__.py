"""One measured window: its steps, the warm-up before it, the page cache, and reading back what was acknowledged."""
