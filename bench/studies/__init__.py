"""Programs that each measure one part of the project: consoles, metrics, load, analytics, security, the batch code."""
