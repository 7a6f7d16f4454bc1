"""The commands of `broker-cy` for operators, one module each, built on the admin core alone."""

PROGRAM = "broker-cy"
# The variable that a shell sets to request completions.
COMPLETE_VARIABLE = "_BROKER_CY_COMPLETE"
