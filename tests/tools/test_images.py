"""Images: what builders are told, what an archive has, and what is said if either is wrong."""

import pytest
from click.testing import CliRunner
from released import image_archive, repository
from tests.support.tables import cases
from tools.commit import read_commit
from tools.images.archive import read_image
from tools.images.builders import Builder, Request, find_builder
from tools.images.building import build
from tools.images.containers import Container, inside
from tools.images.trial import try_images
from tools.problems import Problem

LINE = "bayplan: the base image has no Python 3.11.2 or newer with venv: name another one with BASE"


@pytest.fixture
def commit(tmp_path):
    return read_commit(repository(tmp_path / "r"))


def program(folder, name, script):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@cases(
    "name, time, save",
    {
        "docker": ("docker", "--build-arg SOURCE_DATE_EPOCH=7", "docker load --input"),
        "podman": ("podman", "--timestamp 7", "podman save --format=oci-archive --output"),
        "buildah": ("buildah", "--timestamp 7", "buildah push registry.example/bayplan:1 oci-archive:"),
    },
)
def test_each_builder_gets_the_time_of_the_commit_and_writes_an_archive(
    name, time, save, commit, tmp_path, monkeypatch
):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "7")
    monkeypatch.setenv("PIP_CERT", "/certificates.pem")
    request = Request("registry.example/bayplan:1", "base", "history", tmp_path / "a.tar")
    build, saved = (" ".join(each) for each in Builder(name, (name,)).commands(request, read_commit(commit.root)))
    assert time in build
    assert saved.startswith(save)
    assert str(request.archive) in saved
    for argument in (
        "BASE=base",
        "LIBRARIES=history",
        "id=certificates,src=/certificates.pem",
        f"revision={commit.id}",
    ):
        assert argument in build


@pytest.mark.parametrize(("asked", "isolation"), [(None, "chroot"), ("oci", "oci")])
def test_buildah_works_within_containers_unless_it_is_told_otherwise(asked, isolation, commit, tmp_path, monkeypatch):
    monkeypatch.delenv("BUILDAH_ISOLATION", raising=False)
    if asked:
        monkeypatch.setenv("BUILDAH_ISOLATION", asked)
    builder = find_builder(program(tmp_path, "buildah", f'echo "$BUILDAH_ISOLATION" > {tmp_path}/seen'))
    builder.build(Request("registry.example/bayplan:1", None, "runtime", tmp_path / "a.tar"), commit)
    assert (tmp_path / "seen").read_text() == f"{isolation}\n"


def test_a_base_without_python_is_one_line_and_leaves_nothing(commit, tmp_path):
    script = f'echo "STEP 3: RUN python3 || echo {LINE}"; echo "{LINE}" >&2; echo "Error: exit status 1" >&2; exit 1'
    builder = find_builder(program(tmp_path, "podman", script))
    with pytest.raises(Problem) as refused:
        builder.build(Request("i", None, "runtime", tmp_path / "out" / "a.tar"), commit)
    assert refused.value.message == f"i can't be built: {LINE.removeprefix('bayplan: ')}"
    assert list((tmp_path / "out").iterdir()) == []


@cases(
    "printed, said",
    {
        "docker's prefix": (f"#9 0.321 {LINE}\n#9 ERROR: exit code: 1", LINE.removeprefix("bayplan: ")),
        "a docker that can't build": (
            "unknown flag: --file\n\nUsage:  docker\n\nRun 'docker --help'",
            "unknown flag: --file",
        ),
        "pip's name of the wheel": (
            "  Created wheel for bayplan: filename=bayplan.whl\nError: no items matching glob",
            "Error: no items matching glob",
        ),
    },
)
def test_the_line_that_says_why_is_found(printed, said, commit, tmp_path):
    builder = find_builder(program(tmp_path, "podman", f"cat <<'EOF'\n{printed}\nEOF\nexit 1"))
    with pytest.raises(Problem) as refused:
        builder.build(Request("i", None, "runtime", tmp_path / "a.tar"), commit)
    assert refused.value.message == f"i can't be built: {said}"


def test_a_base_that_is_not_there_is_one_line_that_says_what_to_do(commit, tmp_path):
    script = 'echo "Error: creating build container: nowhere/nothing:1 did not resolve" >&2; exit 125'
    builder = find_builder(program(tmp_path, "podman", script))
    with pytest.raises(Problem) as refused:
        builder.build(Request("registry.example/bayplan:1", "nowhere/nothing:1", "runtime", tmp_path / "a.tar"), commit)
    assert refused.value.message == (
        "registry.example/bayplan:1 can't be built: creating build container: nowhere/nothing:1 did not resolve: "
        "name a base image that is there with BASE"
    )


@cases("chosen", {"another program": "make", "one that isn't there": "/nowhere/podman --quiet"})
def test_a_builder_that_is_none_is_named(chosen):
    with pytest.raises(Problem, match=r"^BUILDER is"):
        find_builder(chosen)


def test_the_first_builder_that_works_is_found(tmp_path, monkeypatch):
    program(tmp_path, "docker", "exit 1")
    program(tmp_path, "buildah", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_builder().program == "buildah"
    (tmp_path / "buildah").unlink()
    assert find_builder() is None


def test_layers_add_and_remove_files(tmp_path):
    names = {f"{folder}/{name}.dist-info/METADATA": b"Name" for folder in ("a", "b") for name in ("n", "m")}
    over = {"a/.wh.n.dist-info": b"", "b/.wh..wh..opq": b"", "own/y": b"4444"}
    image = read_image(image_archive(tmp_path / "i.tar", names, over, {"./b/o.dist-info/METADATA": b"55555"}))
    assert image.size_over("own") == 4 + 5
    assert image.kept == {"a/m.dist-info/METADATA": b"Name", "b/o.dist-info/METADATA": b"55555"}
    assert image.configuration["config"]["User"] == "65532:65532"


def test_every_cut_of_an_archive_is_one_line(tmp_path):
    path = image_archive(tmp_path / "i.tar", {"a": bytes(30000)})
    whole = path.read_bytes()
    for size in range(0, len(whole) - 10240, 1997):
        path.write_bytes(whole[:size])
        with pytest.raises(Problem, match=r"^[^\n]*is no image in the layout of OCI: [^\n]*$"):
            read_image(path)


def test_links_of_an_image_lead_to_its_own_places(tmp_path):
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "run").symlink_to("/run")
    (tmp_path / "run").symlink_to("memory")
    assert inside(tmp_path, "/var/run/secrets/x") == tmp_path / "memory" / "secrets" / "x"
    (tmp_path / "memory").symlink_to("/run")
    (tmp_path / "out").symlink_to("../../etc")
    for path in ("/var/run/secrets", "/out"):
        with pytest.raises(Problem, match="the image has no folder"):
            inside(tmp_path, path)


def test_only_restricted_pods_are_run():
    secure = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    pod = {
        "securityContext": {"runAsNonRoot": True, "runAsUser": 7},
        "containers": [{"name": "c", "args": ["run"], "securityContext": secure}],
    }
    container = Container.of(pod, "i", ["--v=2"])
    assert (container.user, container.arguments) == (7, ["run", "--v=2"])
    secure["readOnlyRootFilesystem"] = False
    with pytest.raises(Problem, match="isn't restricted"):
        Container.of(pod, "i", [])


@pytest.mark.parametrize("command", [try_images, build])
def test_a_machine_that_cannot_build_says_so(command, monkeypatch):
    """The trial is skipped there, and a build is refused."""
    monkeypatch.setattr("tools.images.trial.find_builder", lambda _: None)
    monkeypatch.setattr("tools.images.building.find_builder", lambda _: None)
    result = CliRunner().invoke(command, [])
    said = "docker (with its daemon), podman or buildah on the PATH"
    assert said in result.output
    assert result.output.count("\n") == 1
    assert (result.exit_code, result.output.startswith("SKIPPED: ")) == (
        (0, True) if command is try_images else (1, False)
    )
