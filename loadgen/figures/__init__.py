"""What a run measured."""
