"""The commands of `broker-cy` for operators, one module each, made of the admin core alone."""

PROGRAM = "broker-cy"
# The variable that a shell sets to ask for completions.
COMPLETE_VARIABLE = "_BROKER_CY_COMPLETE"
