"""Why a start fails that the cluster does not allow."""


class RegistrationRefused(Exception):
    """The cluster does not take this broker. The message says why, and what to do."""
