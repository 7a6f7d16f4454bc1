"""Whether the cluster kept what it acknowledged."""
