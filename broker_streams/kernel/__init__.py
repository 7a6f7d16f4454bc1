"""The processors, stores and tasks of a topology, without input, output, clock or random source."""
