"""Acts: plans of everything that changes a cluster."""
