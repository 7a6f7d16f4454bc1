"""Applications as consoles show them: rows, problems, and the picture of a topology."""

from __future__ import annotations

from itertools import combinations

from broker_cy.admin.streams_applications import to_json
from broker_cy.console.streams import facts_of
from broker_cy.console.streams_picture import BOX_HEIGHT, BOX_WIDTH, BOXES_MAX, Box, Picture, picture_of
from broker_cy.reporting.tone import Tone
from tests.support.streams_application import APPLICATION, FIRST, NAME, OF_KAFKA, REPARTITION, THIRD, view


def test_the_rows_join_the_group_and_its_instances() -> None:
    """If this fails, a task is shown at the wrong instance, or a lag that nobody has."""
    assert APPLICATION.state == "REBALANCING"
    assert APPLICATION.lag == 5 + 1_234_567
    assert [(row.task, row.role, row.state, row.lag) for row in APPLICATION.tasks] == [
        ("0_0", "active", "running", 5),
        ("0_1", "active", "running", 0),
        ("0_2", "active", "unknown", 1_234_567),
        ("1_0", "active", "running", 0),
        ("1_0", "standby", "unknown", None),
        ("1_1", "active", "restoring", None),
        ("1_1", "standby", "running", None),
    ]
    assert [(row.endpoint, row.state, row.active, row.standby) for row in APPLICATION.instances] == [
        (FIRST, "RUNNING", 2, 1),
        ("10.0.0.2:8090", "REBALANCING", 2, 1),
        (THIRD, "no answer", 1, 0),
    ]
    assert {(row.store, row.rows, row.restored) for row in APPLICATION.stores} == {
        ("names", 2_000, None),
        ("counts", 66_321, 0.25),
    }
    assert "old" not in {row.topic for row in APPLICATION.inputs}
    assert (APPLICATION.remaining, APPLICATION.records_per_s) == (750_000, 8_543.2)
    assert APPLICATION.problems == (f"{THIRD}: connection refused",)
    found = to_json(APPLICATION)
    assert (found["state"], found["lag"], len(found["tasks"])) == ("REBALANCING", 1_234_572, 7)


def test_an_application_without_instances_that_answer_is_shown() -> None:
    """If this fails, applications of Kafka Streams cannot be shown."""
    assert (OF_KAFKA.lag, OF_KAFKA.records_per_s, OF_KAFKA.remaining) == (None, None, None)
    assert [(row.store, row.rows, row.partitions) for row in OF_KAFKA.stores] == [
        ("orders-per-minute-counts-changelog".removesuffix("-changelog"), None, None),
        ("orders-per-minute-names-changelog".removesuffix("-changelog"), None, None),
    ]


def test_the_facts_name_what_is_restored() -> None:
    """If this fails, nobody sees that an application is not ready yet."""
    facts = {fact.name: (fact.value, fact.tone) for fact in facts_of(view())}
    assert facts["state"] == ("REBALANCING", Tone.NOTED)
    assert facts["to restore"] == ("750,000", Tone.NOTED)
    assert facts["guarantee"][0] == "exactly_once_v2"


def boxes_of(found: Picture) -> dict[str, Box]:
    return {box.id: box for box in found.boxes}


def test_a_picture_has_all_nodes_apart_from_each_other() -> None:
    """If this fails, a picture hides a part of the topology, or the boxes lie on each other."""
    found = picture_of(view())
    boxes = boxes_of(found)
    plan = view().plan["topology"]
    assert boxes.keys() == {node["name"] for node in plan["nodes"]} | {
        f"store {each['name']}" for each in plan["stores"]
    }
    for one, other in combinations(found.boxes, 2):
        apart = abs(one.x - other.x) >= BOX_WIDTH or abs(one.y - other.y) >= BOX_HEIGHT
        assert apart, (one, other)
    assert all(0 <= box.x <= found.width - BOX_WIDTH and 0 <= box.y <= found.height - BOX_HEIGHT for box in found.boxes)
    # Records go from left to right, and by the repartition topic into the band below.
    for line in found.lines:
        if line.kind == "records":
            assert boxes[line.begin].x < boxes[line.end].x, line
        elif line.kind == "topic":
            assert boxes[line.begin].y < boxes[line.end].y, line
    topics = [line for line in found.lines if line.kind == "topic"]
    assert [(boxes[line.begin].title, boxes[line.end].title) for line in topics] == [
        ("counts-repartition", "counts-repartition")
    ]
    assert [band.title for band in found.bands] == ["sub-topology 0", "sub-topology 1"]


def test_a_picture_has_the_figures_of_each_box() -> None:
    """If this fails, a picture shows no rates, or those of another box."""
    boxes = boxes_of(picture_of(view()))
    by_title = {(box.kind, box.title): box for box in boxes.values()}
    assert by_title["source", "orders"].figures == "6.2k/s, lag 1,234,572"
    assert by_title["source", "customers"].figures == "1.5/s, lag 0"
    assert by_title["sink", "big-orders"].figures == "17/s"
    assert by_title["sink", NAME].figures == "2.2k/s"
    assert boxes["KSTREAM-FILTER-0000000003"].figures == "4.0k/s"
    assert (boxes["store counts"].figures, boxes["store counts"].tone) == ("66,321 rows, restored 25%", Tone.NOTED)
    assert boxes["store names"].figures == "2,000 rows"
    assert by_title["sink", "counts-repartition"].topic == REPARTITION


def test_without_a_plan_each_subtopology_is_a_box() -> None:
    """If this fails, applications of Kafka Streams have no picture, or very large ones cannot be drawn."""
    found = picture_of(view(with_plan=False))
    assert {box.title for box in found.boxes} == {
        "sub-topology 0",
        "sub-topology 1",
        "orders",
        "customers",
        REPARTITION,
        "names",
        "counts",
    }
    assert "one box" in found.note
    large = view()
    large.plan["topology"]["nodes"] *= BOXES_MAX
    assert len(picture_of(large).boxes) == len(found.boxes)
    broken = view()
    broken.plan["topology"]["nodes"][0].pop("name")
    assert len(picture_of(broken).boxes) == len(found.boxes)


def test_a_circle_of_topics_is_drawn() -> None:
    """If this fails, a topology that feeds itself hangs the page."""
    circle = view()
    nodes = circle.plan["topology"]["nodes"]
    sink = next(node for node in nodes if node["is"] == "Sink" and node["topic"] == NAME)
    circle.plan["topology"]["repartition_topics"].append({"is": "InternalTopic", "name": "orders"})
    sink["topic"] = "orders"
    assert len(picture_of(circle).boxes) == len(picture_of(view()).boxes)
