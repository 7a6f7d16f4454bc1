"""The result of a run, for users and for programs."""
