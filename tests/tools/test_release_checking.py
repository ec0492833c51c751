"""A release whose parts don't belong together is found, in one line."""

import json
from pathlib import Path

import pytest
from released import image_archive
from tests.support.tables import cases
from tools.images.archive import read_image
from tools.problems import Problem
from tools.releases.bills import bill_of_image, bill_of_wheel
from tools.releases.chart import pack_chart
from tools.releases.checking import check_bills, check_chart_package, check_notes
from tools.releases.folder import NOTES, STATEMENT, Release, digest_of

CHART = Path(__file__).parents[2] / "deploy" / "chart" / "bayplan"
LOCKED = "click==8.5.1 \\\n    --hash=sha256:00\nlark==1.3.1 ; python_version < '4' \\\n    --hash=sha256:00\n"
INSIDE = {"opt/bayplan/lib/click-8.5.1.dist-info/METADATA": b"Name: click\nVersion: 8.5.1\n"}


@pytest.fixture
def release(tmp_path):
    release = Release(tmp_path / "release", "1.2.3")
    release.folder.mkdir()
    release.wheel.write_text("wheel")
    release.requirements.write_text(LOCKED)
    bill = bill_of_wheel(release.wheel, digest_of(release.wheel), LOCKED, "1.2.3", 7)
    release.bill(release.wheel).write_text(bill)
    archive = image_archive(release.folder / "bayplan-1.2.3.oci.tar", INSIDE)
    release.bill(archive).write_text(bill_of_image(read_image(archive), archive.name, "1.2.3", 7))
    given = {"resolvedDependencies": [{"digest": {"gitCommit": "c0"}}]}
    (release.folder / STATEMENT).write_text(json.dumps({"predicate": {"buildDefinition": given}}))
    (release.folder / NOTES).write_text("### Added\n\n- More.\n")
    return release


def test_a_release_whose_parts_belong_together_is_accepted(release):
    assert check_bills(release) == "bills of materials of 2 libraries, 1 packages of bayplan-1.2.3.oci.tar"
    assert check_notes(release) == "1 changes in NOTES.md"


def changed(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def bill_of(release):
    return release.bill(release.images[0])


@cases(
    "damage, message",
    {
        "another lock": (lambda it: it.requirements.write_text(LOCKED.replace("8.5.1", "8.5.2")), "differ in click"),
        "no bill": (lambda it: it.bill(it.wheel).unlink(), "No such file or directory"),
        "another image": (
            lambda it: image_archive(it.images[0], {**INSIDE, "more": b"1"}),
            "is about another image than bayplan-1.2.3.oci.tar, whose digest is sha256:",
        ),
        "an image of another commit": (
            lambda it: image_archive(it.images[0], INSIDE, commit="c1"),
            "bayplan-1.2.3.oci.tar is built of commit c1, but provenance.intoto.json says c0",
        ),
        "a part that isn't there": (
            lambda it: changed(bill_of(it), lambda bill: bill["components"][0].update(purl="pkg:pypi/click@9")),
            "differ in pkg:pypi/click@8.5.1",
        ),
        "no form": (
            lambda it: changed(bill_of(it), lambda bill: bill.pop("specVersion")),
            "is no bill of materials in the form of CycloneDX 1.6",
        ),
    },
)
def test_bills_of_something_else_are_found(release, damage, message):
    damage(release)
    with pytest.raises(Problem) as refused:
        check_bills(release)
    assert message in refused.value.message
    assert "\n" not in refused.value.message


def test_the_package_of_another_chart_is_found(release, tmp_path):
    pack_chart(CHART, release.chart, 7)
    with pytest.raises(Problem, match=r"bayplan-1\.2\.3\.tgz has the versions"):
        check_chart_package(release)
    release.chart.write_bytes(b"x")
    with pytest.raises(Problem, match=r"is no package of the chart: [^\n]*$"):
        check_chart_package(release)


def test_notes_without_a_change_are_found(release):
    (release.folder / NOTES).write_text("Nothing.")
    with pytest.raises(Problem, match="names no change"):
        check_notes(release)
