"""The metadata of the cluster: the controller and its log, the view of handlers, and changes of topics and settings."""
