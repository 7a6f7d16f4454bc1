"""One run over locust's runners: the conductor and its workers."""
