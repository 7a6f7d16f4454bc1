"""Patterns of Java's DateTimeFormatter, with which texts become dates and times, and back.

    calendar  days since 1970, years, weeks, and moments with their fields
    zones     identifiers and names of time zones
    values    numbers in a pattern: widths and signs
    elements  the parts of a pattern that read and write fields
    pattern   the text of a pattern as a list of elements
    formatter what functions use: format and parse

Texts are English, letters have no case when texts are read, and weeks begin on Sunday, as in the locale en-US. Letters
that Java has and this package refuses: `B` when a text is read.
"""
