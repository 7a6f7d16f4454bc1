"""What the broker counts and measures: the metrics page with its listener, samples, and the lag of the loop."""
