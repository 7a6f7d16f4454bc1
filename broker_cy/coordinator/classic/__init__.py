"""Classic groups: members, generations, and the phases of a rebalance. Groups of other types have rooms beside this."""
