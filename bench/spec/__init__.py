"""Workloads and targets as TOML files: what is measured, and on what."""
