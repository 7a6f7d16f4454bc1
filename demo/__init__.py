"""`make demo`: a broker with a workload on it. A client like any other: nothing of the broker is known here."""
