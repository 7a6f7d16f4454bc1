"""What makes the load: each driver runs one workload against one address and reports the result."""
