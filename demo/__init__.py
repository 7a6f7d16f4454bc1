"""`make demo`: a broker with a workload. It is a client like any other, and does not use the broker's internals."""
