"""A Spark data source over Kafka-format segment files on the brokers' own disks (`source.register`, `source.read`)."""
