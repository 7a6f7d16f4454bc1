"""The log cleaner: which log is next, the walks of a worker, and the swap of cleaned segments on the loop."""
