"""What a run does, as data: users, rates, payloads, thresholds."""
