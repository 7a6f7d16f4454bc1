"""The recorded tables of docs/performance.md: what measures them, and how they are filled from the measurements."""
