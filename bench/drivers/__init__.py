"""Load drivers: each runs one workload against one address and reports the result."""
