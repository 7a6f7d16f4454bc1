"""The jobs: pure functions from tables of the lake (`spark_analytics.schema`) to a DataFrame, one file each."""
