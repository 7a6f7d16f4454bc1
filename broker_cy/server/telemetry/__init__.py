"""What the broker reports about itself: metrics, samples, events, log lines, and how late its loop is."""
