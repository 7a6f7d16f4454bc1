"""The metadata quorum as a pure state machine."""
