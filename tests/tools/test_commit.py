"""What is released is a commit with the tag of its version, and nothing else."""

import pytest
from released import git, repository
from tests.support.tables import cases
from tools.commit import check_release, read_commit
from tools.problems import Problem


def test_a_clean_tree_with_the_tag_of_its_version_is_released(tmp_path):
    commit = read_commit(repository(tmp_path / "r", "v1.2.3", "other"))
    assert check_release(commit) == "v1.2.3"
    assert commit.seconds == int(git(commit.root, "log", "-1", "--format=%ct"))


@cases(
    "tags, change, message",
    {
        "no tag": ([], None, "the commit has no tag, but pyproject.toml has the version 1.2.3: tag it v1.2.3"),
        "another version": (
            ["v1.2.4"],
            None,
            "the commit has the tag v1.2.4, but pyproject.toml has the version 1.2.3",
        ),
        "a changed file": (["v1.2.3"], "CHANGELOG.md", "the tree isn't clean: CHANGELOG.md is not committed"),
        "a new file": (["v1.2.3"], "new.py", "the tree isn't clean: new.py is not committed"),
    },
)
def test_anything_else_is_refused(tags, change, message, tmp_path):
    folder = repository(tmp_path / "r", *tags)
    if change:
        (folder / change).write_text("x")
    with pytest.raises(Problem) as refused:
        check_release(read_commit(folder))
    assert message in refused.value.message


def test_a_time_that_is_none_is_refused(tmp_path, monkeypatch):
    folder = repository(tmp_path / "r")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert read_commit(folder).seconds == 86400
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(Problem, match="whole seconds"):
        read_commit(folder)
