"""Small releases, repositories and images for the tests of tools."""

import hashlib
import io
import json
import subprocess
import tarfile

FILES = {
    "pyproject.toml": '[project]\nname = "bayplan"\nversion = "1.2.3"\n',
    "CHANGELOG.md": "## [1.2.3]\n\n- More.\n",
}


def git(folder, *arguments):
    options = ["-c", "user.name=n", "-c", "user.email=n@example.com", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *options, *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


def repository(folder, *tags):
    """A repository with one commit."""
    folder.mkdir()
    git(folder, "init", "--quiet")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Begin")
    for tag in tags:
        git(folder, "tag", tag)
    return folder


def tarred(files):
    """An archive of files, as bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def image_archive(path, *layers, commit="c0"):
    """An image of layers, each a dict of files, in the layout of OCI."""
    blobs = {}

    def stored(content):
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"digest": f"sha256:{digest}", "size": len(content)}

    labels = {"org.opencontainers.image.revision": commit}
    config = stored(json.dumps({"config": {"User": "65532:65532", "Labels": labels}}).encode())
    manifest = {"config": config, "layers": [stored(tarred(layer)) for layer in layers]}
    index = {"manifests": [stored(json.dumps(manifest).encode())]}
    path.write_bytes(tarred({"index.json": json.dumps(index).encode(), **blobs}))
    return path
