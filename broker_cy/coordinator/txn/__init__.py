"""The transaction coordinator: state machines over `__transaction_state` (KIP-98, KIP-360, KIP-890)."""
