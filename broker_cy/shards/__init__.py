"""Several brokers on one host under one parent process: `broker-cy start --shards N`.

`config.shard_plan` has the settings of each shard. `supervisor` and `stillness` are the parent's decisions, as pure
state machines; `parent` is the process that carries them out, with `peers` and `children`; `link` is the shard's half
of the connection between them.
"""
