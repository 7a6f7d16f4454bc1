"""The active controller: what runs while this node leads the metadata quorum."""
