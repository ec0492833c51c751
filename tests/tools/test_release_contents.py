"""What a release has: bills of materials, provenance, the chart's package, notes and checksums; and damaged ones."""

import json
import re
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from released import image_archive, repository
from tests.support.tables import cases
from tools.commit import read_commit
from tools.images.archive import read_image
from tools.problems import Problem
from tools.releases.bills import bill_of_image, bill_of_wheel, check_bill, pins
from tools.releases.chart import check_chart, pack_chart
from tools.releases.folder import SUMS, Release, open_release
from tools.releases.notes import notes_of
from tools.releases.provenance import check_envelope, check_statement, sign, statement

ROOT = Path(__file__).parents[2]
LOCKED = (ROOT / "requirements" / "runtime.txt").read_text(encoding="utf-8")
DPKG = (
    "Package: bash\nStatus: install ok installed\nVersion: 5.2-1\nArchitecture: amd64\nDescription: a\n shell: it\n\n"
    "Package: gone\nStatus: deinstall ok config-files\nVersion: 1\nArchitecture: amd64\n"
)


def test_the_bill_of_a_wheel_has_every_locked_library_and_is_the_same_each_time():
    wheel = Path("bayplan-1.2.3-py3-none-any.whl")
    text = bill_of_wheel(wheel, "0" * 64, LOCKED, "1.2.3", 7)
    assert text == bill_of_wheel(wheel, "0" * 64, LOCKED, "1.2.3", 7)
    check_bill(text, "it")
    found = {(each["name"], each["version"]) for each in json.loads(text)["components"]}
    assert len(found) == len(re.findall(r"^[a-z].*==", LOCKED, re.MULTILINE)) == len(pins(LOCKED))
    assert {name for name, _ in found} >= {"aiohttp", "numpy", "pyyaml"}
    (click,) = (each for each in json.loads(text)["components"] if each["name"] == "click")
    assert (
        click["licenses"] == [{"expression": "BSD-3-Clause"}] or click["licenses"][0]["license"]["id"] == "BSD-3-Clause"
    )


def test_the_bill_of_an_image_has_what_is_in_it(tmp_path):
    metadata = {f"opt/{place}/Click-8.dist-info/METADATA": b"Name: Click\nVersion: 8\n\nText" for place in ("a", "b")}
    more = {"var/lib/dpkg/status": DPKG.encode(), "opt/a/pyvenv.cfg": b"home = /usr/bin\nversion = 3.11.2\n"}
    image = read_image(image_archive(tmp_path / "i.tar", {**metadata, **more}))
    text = bill_of_image(image, "i", "1.2.3", 7)
    check_bill(text, "it")
    document = json.loads(text)
    assert document["metadata"]["component"]["bom-ref"] == image.digest
    assert sorted(each["purl"] for each in document["components"]) == [
        "pkg:deb/debian/bash@5.2-1?arch=amd64",
        "pkg:generic/cpython@3.11.2",
        "pkg:pypi/click@8",
        "pkg:pypi/click@8",
    ]


def test_what_is_no_bill_is_one_line():
    with pytest.raises(Problem) as refused:
        check_bill('{"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "parts": []}', "x.json")
    assert refused.value.message.startswith("x.json is no bill of materials in the form of CycloneDX 1.6: ")
    assert "\n" not in refused.value.message


KEYS = {"ed25519": ed25519.Ed25519PrivateKey.generate, "P-256": lambda: ec.generate_private_key(ec.SECP256R1())}


def keys(folder, kind):
    private = KEYS[kind]()
    encoding = serialization.Encoding.PEM
    (folder / "key.pem").write_bytes(
        private.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    (folder / "key.pub").write_bytes(
        private.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return folder / "key.pem", folder / "key.pub"


def made(folder, name="a"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(name)
    commit = read_commit(repository(folder / "r"))
    digest = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
    return commit, statement(commit, "v1.2.3", [("a", digest)], source="git+s", builder="b", digests={"l": "0" * 64})


@pytest.mark.parametrize("kind", KEYS)
def test_provenance_names_the_commit_and_its_signature_is_checked(kind, tmp_path):
    commit, text = made(tmp_path / "m")
    definition = check_statement(text, "p", [tmp_path / "m" / "a"])["buildDefinition"]
    assert definition["resolvedDependencies"][0] == {
        "uri": "git+s@refs/tags/v1.2.3",
        "digest": {"gitCommit": commit.id},
    }
    private, public = keys(tmp_path, kind)
    envelope = sign(text, private)
    check_envelope(envelope, text, "e", public)
    (tmp_path / "other").mkdir()
    _, other = keys(tmp_path / "other", kind)
    with pytest.raises(Problem, match=r"^e has no signature of .*key.pub$"):
        check_envelope(envelope, text, "e", other)
    with pytest.raises(Problem, match=r"^e has another statement"):
        check_envelope(envelope, text.replace("git+s", "git+t"), "e", public)


@cases(
    "change, message",
    {
        "no JSON": (lambda text: text[:-9], "p is no JSON: "),
        "no subjects": (
            lambda text: text.replace('"subject"', '"subjects"'),
            "p is no provenance: it has no field 's",
        ),
        "a list": (lambda _: "[]", "p is no provenance: its fields are not"),
        "another type": (lambda text: text.replace("provenance/v1", "provenance/v0.2"), "p is no provenance of SLSA 1"),
        "another file": (lambda text: text.replace('"a"', '"b"'), "p says another SHA-256 of a than the file has"),
        "another digest": (lambda text: text.replace("ca97", "ca98"), "p says another SHA-256 of a"),
    },
)
def test_changed_provenance_is_one_line(change, message, tmp_path):
    _, text = made(tmp_path / "m")
    with pytest.raises(Problem) as refused:
        check_statement(change(text), "p", [tmp_path / "m" / "a"])
    assert refused.value.message.startswith(message)


@cases("content", {"no key": b"x", "a public key as a private one": None, "none": "gone"})
def test_what_is_no_key_is_one_line(content, tmp_path):
    private, public = keys(tmp_path, "P-256")
    path = public if content is None else private
    if content == "gone":
        private.unlink()
    elif content is not None:
        private.write_bytes(content)
    with pytest.raises(Problem, match="key"):
        sign("{}", path)


def test_the_package_of_the_chart_has_the_same_bytes_each_time(tmp_path):
    chart = ROOT / "deploy" / "chart" / "bayplan"
    packed = []
    for name in ("a", "b"):
        pack_chart(chart, tmp_path / name, 7)
        packed.append((tmp_path / name).read_bytes())
    assert packed[0] == packed[1]
    with pytest.raises(Problem, match=r"Chart.yaml: version is .*, but the version is 9\.9$"):
        check_chart(chart, "9.9")


@cases(
    "text, message",
    {
        "no section": ("## [1.2.2]\n- a\n", "has no section `## [1.2.3]`"),
        "an empty one": ("## [1.2.3]\n\n## [1.2.2]\n- a\n", "line 1: the section of 1.2.3 is empty"),
    },
)
def test_a_release_without_notes_is_refused(text, message, tmp_path):
    (tmp_path / "CHANGELOG.md").write_text(text)
    with pytest.raises(Problem) as refused:
        notes_of("1.2.3", tmp_path / "CHANGELOG.md")
    assert message in refused.value.message


def test_notes_are_the_section_of_the_version(tmp_path):
    (tmp_path / "CHANGELOG.md").write_text(
        "# C\n\n## [Unreleased]\n\n## [1.2.3] - today\n\n### Added\n\n- a\n\n## [1.2.2]\n- b\n"
    )
    assert notes_of("1.2.3", tmp_path / "CHANGELOG.md") == "### Added\n\n- a\n"


def small_release(folder):
    release = Release(folder, "1.2.3")
    folder.mkdir()
    release.wheel.write_text("wheel")
    (folder / "x").write_text("x")
    release.write_sums()
    return release


@cases(
    "damage, message",
    {
        "a changed file": (
            lambda folder: (folder / "x").write_text("y"),
            "x has another checksum than SHA256SUMS says",
        ),
        "a new file": (lambda folder: (folder / "y").write_text("y"), "y is not in SHA256SUMS"),
        "a missing file": (lambda folder: (folder / "x").unlink(), "x is in SHA256SUMS, but not in the folder"),
        "no checksums": (lambda folder: (folder / SUMS).unlink(), "SHA256SUMS: No such file or directory"),
        "no checksum": (lambda folder: (folder / SUMS).write_text("x"), "SHA256SUMS, line 1: expected a SHA-256"),
        "another folder": (
            lambda folder: (folder / SUMS).write_text(f"{'0' * 64}  ../x\n"),
            "SHA256SUMS, line 1: expected a SHA-256, two spaces and a file of the folder",
        ),
        "bytes": (lambda folder: (folder / SUMS).write_bytes(b"\xff"), "SHA256SUMS: is not UTF-8"),
    },
)
def test_a_damaged_release_is_one_line(damage, message, tmp_path):
    release = small_release(tmp_path / "r")
    assert open_release(release.folder).check_sums() == 2
    damage(release.folder)
    with pytest.raises(Problem) as refused:
        open_release(release.folder).check_sums()
    assert message in refused.value.message
    assert "\n" not in refused.value.message


def test_a_folder_without_a_wheel_is_no_release(tmp_path):
    with pytest.raises(Problem, match=r"is no release: expected one file bayplan-VERSION-py3-none-any.whl, found 0"):
        open_release(tmp_path)
