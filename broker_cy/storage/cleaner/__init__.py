"""The log cleaner: the choice of the next log, the walks of a worker, and the swap of cleaned segments on the loop."""
