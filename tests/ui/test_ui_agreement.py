"""The page about a shadow: what its file has, read again when it changes."""

import re
from datetime import UTC, datetime, timedelta

from gone_through import served_history, write_day
from served_page import served, small_cluster

from bayplan.answers.shadow.comparisons import ShadowCause, ShadowComparison, ShadowOutcome, ShadowSubject
from bayplan.answers.shadow.record import ShadowRecord
from bayplan.faces.asking.sources import FileSource
from bayplan.faces.ui.shadow_file import ShadowFile
from bayplan.insight import Insight, Snapshot

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def compared(seconds, outcome=ShadowOutcome.SAME, pod="default/web-1", **fields):
    return ShadowComparison(
        time=BEGIN + timedelta(seconds=seconds),
        subject=ShadowSubject.BINDING,
        pod=pod,
        uid=pod,
        theirs="node-0",
        ours="node-1",
        outcome=outcome,
        **fields,
    )


def save(path, *found):
    record = ShadowRecord(["default-scheduler"], began=BEGIN, until=BEGIN)
    for each in found:
        record.tally.add(each)
        record.add(each)
    record.save(path)


OTHER = {"difference": 4, "margin": 2, "cause": ShadowCause.UNKNOWN, "plugins": (("NodeResourcesFit", 4),)}


def served_file(path):
    source = FileSource(Snapshot.of(small_cluster(), source="file cluster.yaml"))
    return served(source, Insight(Snapshot()), shadow=ShadowFile(path))


async def test_page_shows_agreement_over_time_causes_and_differences(tmp_path):
    different = (
        compared(70, ShadowOutcome.OTHER, **OTHER),
        compared(80, ShadowOutcome.OTHER, "default/<gone>", cause=ShadowCause.CONFIGURATION, reason="<b>"),
    )
    save(tmp_path / "state", compared(0), compared(65, ShadowOutcome.BEST), *different)
    async with served_file(tmp_path / "state") as visitor:
        assert "/agreement" in (await visitor.page("/")).links
        text = await visitor.get("/agreement")
        page = await visitor.page("/agreement")
    assert "2 of 4 decisions equal (50.00%); 2 different: 1 configuration, 1 unknown" in page.text
    assert "each bar has the decisions of a minute" in page.text
    assert re.findall('<rect class="([a-z_]+)"', text) == ["same", "best", "other"]
    assert "binding other unknown 1 25.00%" in page.text
    row = "2026-01-01 00:01:10 UTC default/web-1 binding node-0 node-1 4 2 unknown NodeResourcesFit +4"
    assert row in page.text
    assert page.text.index("<gone>") < page.text.index(row)
    assert page.links.keys() >= {"/pods/default/web-1"}
    assert not any("gone" in link for link in page.links)


async def test_file_is_read_again_when_it_changes(tmp_path):
    path = tmp_path / "state"
    save(path, compared(0))
    async with served_file(path) as visitor:
        text = await visitor.get("/agreement")
        again = re.search(r'hx-get="([^"]+)" hx-trigger="every', text)[1]
        await visitor.get(again, 204, part="live")
        save(path, compared(0), compared(1))
        assert "2 of 2 decisions equal" in await visitor.get(again, part="live")


async def test_file_that_is_damaged_or_gone_is_one_message(tmp_path):
    path = tmp_path / "state"
    save(path, compared(0))
    async with served_file(path) as visitor:
        await visitor.page("/agreement")
        path.write_text("{}")
        assert "is not a file of `bayplan shadow`" in (await visitor.page("/agreement", 404)).text
        path.unlink()
        assert "There is no file" in (await visitor.page("/agreement", 404)).text
        await visitor.page("/")


async def test_page_without_a_shadow_says_how_to_have_one():
    async with served(FileSource(Snapshot.of(small_cluster()))) as visitor:
        assert "--shadow FILE" in (await visitor.page("/agreement", 404)).text
        assert "/agreement" not in (await visitor.page("/")).links


async def test_beside_a_history_differences_link_to_their_moments(tmp_path):
    day = write_day(tmp_path / "day")
    save(tmp_path / "state", compared(105, ShadowOutcome.OTHER, **OTHER), compared(9e9, ShadowOutcome.OTHER, **OTHER))
    async with served_history(day, shadow=ShadowFile(tmp_path / "state")) as visitor:
        page = await visitor.page("/at/60/agreement")
        linked = [each for each in page.links if each.endswith("/pods/default/web-1")]
        early = next(each for each in linked if not each.startswith("/at/60/"))
        assert "Pending. It would be placed" in (await visitor.page(early)).text
        assert len(linked) == 2
