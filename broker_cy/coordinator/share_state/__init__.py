"""The share coordinator: the state of share partitions, which is kept in `__share_group_state`, as a state machine."""
