"""The metadata of the cluster: the controller and its log, what handlers see of it, topics and settings that change."""
