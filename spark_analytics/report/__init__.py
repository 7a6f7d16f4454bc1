"""The report on a lake: one HTML page that needs no network.

`collect` reduces the results of the jobs to bounded rows (`content`); `page` builds the page from them, with `charts`
and `tables`, and needs neither Spark nor a lake.
"""
