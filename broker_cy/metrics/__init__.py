"""The broker's own metrics. Counters are C structs; they are never read on the path of a request."""
