"""Bills of materials in the form of CycloneDX: the locked requirements of a wheel, and what is in an image."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from email import message_from_bytes
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.contrib.this.builders import this_component
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from tools.images.archive import Image
from tools.problems import Problem

PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)(?: ; ([^\\]+?))? *\\?$")
"""A line of locked requirements: name, version and marker"""


def bill_of_wheel(wheel: Path, digest: str, requirements: str, version: str, seconds: int) -> str:
    """Return the bill of a wheel: its locked libraries, each with the condition under which it is installed."""
    root = Component(
        name="bayplan",
        version=version,
        type=ComponentType.APPLICATION,
        purl=PackageURL("pypi", name="bayplan", version=version),
        bom_ref=wheel.name,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
    )
    parts = []
    for name, pinned, marker in pins(requirements):
        condition = [Property(name="bayplan:marker", value=marker)] if marker else []
        parts.append(_library(name, pinned, _known_license(name, pinned), properties=condition))
    return _written(root, parts, digest, seconds)


def bill_of_image(image: Image, name: str, version: str, seconds: int) -> str:
    """Return the bill of an image: what is installed in it."""
    root = Component(
        name=name,
        version=version,
        type=ComponentType.CONTAINER,
        purl=PackageURL("oci", name="bayplan", version=image.digest),
        bom_ref=image.digest,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=image.digest.removeprefix("sha256:"))],
    )
    return _written(root, parts_of_image(image), image.digest, seconds)


def parts_of_image(image: Image) -> list[Component]:
    """Return the Python of an image, its libraries, and Debian's packages."""
    return [*_interpreters(image), *_python_parts(image), *_debian_parts(image)]


def pins(requirements: str) -> list[tuple[str, str, str]]:
    """Return name, version and marker of each locked requirement."""
    found = [match for line in requirements.splitlines() if (match := PIN.match(line))]
    return [(match[1], match[2], match[3] or "") for match in found]


def check_bill(text: str, what: str) -> None:
    """Check a bill against the schema of CycloneDX."""
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if error is not None:
        raise Problem(f"{what} is no bill of materials in the form of CycloneDX 1.6: {str(error).splitlines()[0]}")


def _interpreters(image: Image) -> Iterable[Component]:
    for path, content in image.kept.items():
        if path.endswith("/pyvenv.cfg") and (match := re.search(rb"^version = (\S+)$", content, re.MULTILINE)):
            purl = PackageURL("generic", name="cpython", version=match[1].decode())
            yield Component(name="cpython", version=purl.version, type=ComponentType.PLATFORM, purl=purl, bom_ref=path)


def _python_parts(image: Image) -> Iterable[Component]:
    for path, content in image.kept.items():
        if path.endswith(".dist-info/METADATA"):
            headers = message_from_bytes(content)
            yield _library(str(headers["Name"]), str(headers["Version"]), headers["License-Expression"], place=path)


def _debian_parts(image: Image) -> Iterable[Component]:
    for block in image.kept.get("var/lib/dpkg/status", b"").decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and line[0] != " ")
        if fields.get("Status", "").endswith(" installed"):
            name, version = fields["Package"], fields["Version"]
            purl = PackageURL("deb", "debian", name, version, {"arch": fields["Architecture"]})
            yield Component(name=name, version=version, type=ComponentType.LIBRARY, purl=purl, bom_ref=str(purl))


def _library(
    name: str, version: str, expression: str | None, *, properties: Iterable[Property] = (), place: str | None = None
) -> Component:
    """Return a library of Python. `place` tells copies in an image apart."""
    known = [LicenseFactory().make_from_string(expression)] if expression else []
    purl = PackageURL("pypi", name=name.lower().replace("_", "-"), version=version)
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        purl=purl,
        bom_ref=place or str(purl),
        licenses=known,
        properties=properties,
    )


def _known_license(name: str, version: str) -> str | None:
    """Return the license of a library, if this environment has the version."""
    try:
        found = metadata(name)
    except PackageNotFoundError:
        return None
    return found["License-Expression"] if found["Version"] == version else None


def _written(root: Component, parts: list[Component], identity: str, seconds: int) -> str:
    """Return the text, which is the same each time: its number and its time are those of what it is about."""
    bill = Bom(components=parts, serial_number=uuid5(NAMESPACE_URL, f"{root.name}@{identity}"))
    bill.metadata.component = root
    bill.metadata.tools.components.add(this_component())
    bill.metadata.timestamp = datetime.fromtimestamp(seconds, UTC)
    bill.register_dependency(root, parts)
    return JsonV1Dot6(bill).output_as_string(indent=1) + "\n"
