"""The ways to measure: each mode takes a session, targets and workloads, and gives runs for the report."""
