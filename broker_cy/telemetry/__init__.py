"""The counts and measurements of the broker: the metrics page with its listener, samples, and the lag of the loop."""
