"""The broker's reports about itself: metrics, samples, events, log lines, and the lag of its loop."""
