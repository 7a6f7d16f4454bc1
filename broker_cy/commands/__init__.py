"""The commands of `broker-cy` for operators, one module each, made of the admin core alone."""

PROGRAM = "broker-cy"
# What a shell sets that asks for completions.
COMPLETE_VARIABLE = "_BROKER_CY_COMPLETE"
