"""The modes of measurement: each takes a session, targets and workloads, and produces runs for the report."""
