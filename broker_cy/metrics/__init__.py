"""The metrics of the broker. Counters are C structs, which are never read while a request is handled."""
