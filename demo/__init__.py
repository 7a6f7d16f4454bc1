"""`make demo`: a broker with a workload. A client like any other: it knows nothing of the broker's internals."""
