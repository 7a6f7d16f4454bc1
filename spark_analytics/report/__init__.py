"""The report on a lake: one HTML page that needs no network.

`collect` reduces the results of the jobs to bounded rows (`content`); `page` makes the page of them, with `charts` and
`tables`, and needs neither Spark nor a lake.
"""
