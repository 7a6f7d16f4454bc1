"""The node of the metadata quorum: its state machine on the metadata log, on timers and on the network."""
