"""The common parts of the newer group types: consumer (KIP-848), share (KIP-932) and streams (KIP-1071)."""
