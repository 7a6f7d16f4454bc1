"""The page of every report."""

from __future__ import annotations

import base64
import hashlib
import re

from broker_cy.reporting import document
from broker_cy.reporting.charts import Chart

EVIL = "</script><script>window.evil = 1</script>"


def test_only_the_scripts_of_the_page_run() -> None:
    """If this fails, a name in a report runs as a script, or the browser refuses to draw the charts."""
    chart = Chart("a", EVIL, EVIL, [{"name": EVIL}], {})
    text = document.page(EVIL, [document.cards([chart]), document.controls("what", {0: EVIL})], [chart])
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == 3
    hashes = ["sha256-" + base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts]
    (policy,) = re.findall(r"script-src ([^;]*);", text)
    assert policy.split() == [f"'{each}'" for each in hashes]


def test_a_page_needs_no_network() -> None:
    """If this fails, a report is blank on a machine without a network, or in ten years."""
    text = document.page("title", ["<p>text</p>"])
    assert "default-src 'none'" in text
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=.https?:", text)
    assert document.PLOTLY.read_text(encoding="utf-8") in text
