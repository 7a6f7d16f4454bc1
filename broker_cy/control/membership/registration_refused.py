"""The error of a start that the cluster does not allow."""


class RegistrationRefused(Exception):
    """The cluster refuses this broker. The message has the reason and the remedy."""
