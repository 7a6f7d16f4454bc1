"""The life cycle of a node: `lifecycle` for a broker, `controller_lifecycle` for a node that is only a controller."""
