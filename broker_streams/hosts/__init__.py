"""The programs around tasks: they read inputs, write results, and commit."""
