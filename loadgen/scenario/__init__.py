"""The definition of a run as data: users, rates, payloads, thresholds."""
