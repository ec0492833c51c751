"""`bayplan new` creates a project whose tests pass, and rejects invalid names and directories."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from bayplan.core.api.kinds import KINDS
from bayplan.core.api.objects import convert
from bayplan.core.config import load_configuration, load_plugins
from bayplan.faces.cli import main
from bayplan.faces.cli.installation import arguments_of
from bayplan.faces.cli.new import new
from bayplan.faces.cli.new_project import FILES, MANIFESTS, Project, UnusableName

ROOT = Path(__file__).parents[2]


def run(*arguments):
    return CliRunner().invoke(new, list(map(str, arguments)))


@pytest.fixture
def project(tmp_path):
    assert run("my-scheduler", "--directory", tmp_path / "made").exit_code == 0
    return tmp_path / "made"


def documents(path):
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def test_tests_of_a_new_project_pass(project):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    done = subprocess.run(
        [*command, "-o", "asyncio_default_fixture_loop_scope=function"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b1\d passed", done.stdout)


@pytest.mark.parametrize("command", [["ruff", "check"], ["ruff", "format", "--check"]], ids=" ".join)
def test_new_project_passes_ruff(project, command):
    options = ["--isolated", "--line-length", "120", "."]
    done = subprocess.run(
        [sys.executable, "-m", *command, *options], cwd=project, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("origin", "arguments"),
    [
        ({"url": "file:///src/bay%20plan", "dir_info": {}}, ["/src/bay plan"]),
        ({"url": "file:///src/bayplan", "dir_info": {"editable": True}}, ["--editable", "/src/bayplan"]),
        ({"url": "file:///dist/bayplan-1.whl", "archive_info": {"hash": "sha256=0"}}, ["/dist/bayplan-1.whl"]),
        ({"url": "https://example.com/b.whl", "archive_info": {}}, ["https://example.com/b.whl"]),
        (
            {
                "url": "https://example.com/b.git",
                "vcs_info": {"vcs": "git", "commit_id": "1a", "requested_revision": "v1"},
            },
            ["git+https://example.com/b.git@1a"],
        ),
        (
            {"url": "ssh://git@example.com/b", "vcs_info": {"vcs": "git", "commit_id": "1a"}, "subdirectory": "py"},
            ["git+ssh://git@example.com/b@1a#subdirectory=py"],
        ),
    ],
)
def test_new_project_installs_bayplan_from_its_origin(origin, arguments):
    assert arguments_of(origin) == arguments


@pytest.mark.parametrize("arguments", [[], ["/src/bay plan"]])
def test_readme_and_next_steps_have_the_same_install_command(tmp_path, monkeypatch, arguments):
    monkeypatch.setattr("bayplan.faces.cli.new_project.pip_arguments", lambda: arguments)
    printed = run("my-scheduler", "--directory", tmp_path).output
    command = shlex.join(["python", "-m", "pip", "install", *arguments, "--editable", ".[test]"])
    assert f"\n  {command}\n" in printed
    assert f"\n{command}\n" in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_rendered_files_contain_no_placeholder(project):
    names = [path for path in project.rglob("*") if path.is_file()]
    assert len(names) == len(FILES)
    for path in names:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"__[A-Z]+__", f"{path}\n{text}"), path


def test_every_template_is_used():
    folder = ROOT / "src" / "bayplan" / "faces" / "cli" / "templates" / "project"
    templates = {path.name.removesuffix(".tmpl") for path in folder.iterdir()}
    assert templates == {template for template, _ in FILES.values()} - {MANIFESTS}


def test_configuration_names_the_plugins(project):
    configuration = load_configuration(project / "scheduler.yaml")
    plugins = load_plugins([str(project / "src" / "my_scheduler" / "plugins.py")])
    (profile,) = configuration.profiles
    assert profile.schedulerName == "my-scheduler"
    names = [plugin.name for plugin in plugins]
    assert [each.name for each in profile.plugins.multiPoint.enabled] == names
    assert [each.name for each in profile.pluginConfig] == names[1:]
    with (project / "pyproject.toml").open("rb") as file:
        entry_points = tomllib.load(file)["project"]["entry-points"]["bayplan.plugins"]
    assert entry_points == {
        "MySchedulerTier": "my_scheduler.plugins:tier",
        "MySchedulerPrice": "my_scheduler.plugins:Price",
    }


def test_manifests_are_valid_and_match_the_deploy_folder(project):
    ours, theirs = documents(ROOT / "deploy" / "bayplan.yaml"), documents(project / "deploy" / "my-scheduler.yaml")
    known = {(kind.api_version, kind.kind): kind for kind in KINDS}
    for each in (*theirs, *documents(project / "pods.yaml")):
        kind = known.get((each["apiVersion"], each["kind"]))
        if kind is not None:
            convert(kind.type, each)
    roles = [[each["roleRef"] for each in of if each["kind"] == "ClusterRoleBinding"] for of in (ours, theirs)]
    assert roles[0] == roles[1]
    assert [each["kind"] for each in theirs] == [each["kind"] for each in ours]
    spec = next(each["spec"]["template"]["spec"] for each in theirs if each["kind"] == "Deployment")
    (container,) = spec["containers"]
    assert "--plugin=my_scheduler.plugins" in container["args"]
    assert container["volumeMounts"][0]["name"] == spec["volumes"][0]["name"]
    assert spec["serviceAccountName"] == next(e["metadata"]["name"] for e in theirs if e["kind"] == "ServiceAccount")


def test_dockerfile_extends_the_bayplan_image(project):
    lines = [line for line in (project / "Dockerfile").read_text().splitlines() if line and not line.startswith("#")]
    assert [line.split()[0] for line in lines] == ["FROM", "COPY"]
    assert (project / lines[1].split()[1] / "plugins.py").is_file()


def test_printed_commands_exist(project):
    printed = run("my-scheduler", "--directory", project / "again").output
    lines = [*(project / "README.md").read_text().splitlines(), *(line.strip() for line in printed.splitlines())]
    commands = [shlex.split(line, comments=True) for line in lines if re.match(r"bayplan [a-z]", line)]
    assert len(commands) == 4
    for _, name, *words in commands:
        command = main.get_command(click.Context(main), name)
        known = {option for each in command.params for option in each.opts}
        assert {word for word in words if word.startswith("-")} <= known


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("MyScheduler", "as in my-scheduler"),
        ("my_scheduler", "as in my-scheduler"),
        ("-x", "as in x"),
        ("x" * 64, "at most 63"),
        ("ends-", "as in ends"),
        ("", "expected at most 63"),
        ("ünder", "expected at most 63"),
        ("../up", "as in up"),
        ("2fast", "cannot be the name of a Python package, 2fast"),
        ("class", "cannot be the name of a Python package, class"),
        ("bayplan", "is taken"),
        ("default-scheduler", "is taken"),
        ("json", "is taken"),
        ("numpy", "is taken"),
        ("lightkube-models", "is taken"),
        ("tests", "is taken"),
    ],
)
def test_invalid_name_is_rejected(name, message, tmp_path):
    with pytest.raises(UnusableName, match=re.escape(message)):
        Project(name)
    done = run("--directory", tmp_path / "x", "--", name)
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("name", "module", "prefix"),
    [("my-scheduler", "my_scheduler", "MyScheduler"), ("gpu", "gpu", "Gpu"), ("a2-b", "a2_b", "A2B")],
)
def test_module_and_prefix_are_derived_from_the_name(name, module, prefix):
    assert (Project(name).module, Project(name).prefix) == (module, prefix)


def test_non_empty_directory_is_rejected_without_force(tmp_path):
    (tmp_path / "kept.txt").write_text("mine")
    done = run("my-scheduler", "--directory", tmp_path)
    assert done.exit_code == 2
    assert f"{tmp_path} is not empty" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]
    assert run("my-scheduler", "--directory", tmp_path, "--force").exit_code == 0
    assert (tmp_path / "kept.txt").read_text() == "mine"
    assert (tmp_path / "src/my_scheduler/plugins.py").is_file()


def test_directory_that_is_a_file_is_rejected(tmp_path):
    (tmp_path / "file").write_text("")
    done = run("my-scheduler", "--directory", tmp_path / "file")
    assert done.exit_code == 2
    assert "cannot write" in done.output


def test_default_directory_is_the_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "Created my-scheduler in my-scheduler:" in run("my-scheduler").output
    assert (tmp_path / "my-scheduler" / "scheduler.yaml").is_file()


def test_help_imports_no_scheduler_modules():
    code = (
        "import sys\nfrom click.testing import CliRunner\nfrom bayplan.faces.cli import main\n"
        "assert 'NAME' in CliRunner().invoke(main, ['new', '--help']).output\n"
        "print([name for name in ('numpy', 'lightkube', 'aiohttp', 'pytest') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
