"""Workloads and targets as TOML files."""
