import io
import tarfile

import pytest
from tools.archives import unpack
from tools.problems import Problem


def archive(path, *members):
    with tarfile.open(path, "w") as tar:
        for name, kind in members:
            member = tarfile.TarInfo(name)
            member.type, member.size, member.linkname = kind, 2 if kind == tarfile.REGTYPE else 0, "/etc/hosts"
            tar.addfile(member, io.BytesIO(b"ok") if member.size else None)
    return path


def test_files_and_folders_are_unpacked_and_links_are_not(tmp_path):
    members = ("a", tarfile.DIRTYPE), ("a/file", tarfile.REGTYPE), ("a/link", tarfile.SYMTYPE)

    unpack(archive(tmp_path / "some.tar", *members), tmp_path / "here")

    assert (tmp_path / "here/a/file").read_text() == "ok"
    assert not (tmp_path / "here/a/link").is_symlink()


@pytest.mark.parametrize("name", ["../outside", "a/../../outside", "/outside"])
def test_nothing_is_written_outside(tmp_path, name):
    path = archive(tmp_path / "some.tar", (name, tarfile.REGTYPE))

    with pytest.raises(Problem, match="outside"):
        unpack(path, tmp_path / "here")

    assert not (tmp_path / "outside").exists()


def test_what_is_no_archive_is_said(tmp_path):
    (tmp_path / "some.tar").write_text("no archive")

    with pytest.raises(Problem, match="can't be unpacked"):
        unpack(tmp_path / "some.tar", tmp_path / "here")
