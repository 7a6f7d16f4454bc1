"""Acts: plans for every operation that changes a cluster."""
