"""The committed metadata of this node: the image, its snapshots, and its view for clients."""
