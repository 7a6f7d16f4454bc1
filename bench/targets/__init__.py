"""The measured targets: one node, a cluster or the floor, and the faults that are caused in them."""
