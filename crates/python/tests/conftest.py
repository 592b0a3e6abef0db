import os
import pathlib

import pytest

import segnofs


@pytest.fixture
def image(tmp_path):
    """A formatted image."""
    path = tmp_path / "disk.img"
    segnofs.mkfs(path, 64 << 20, features=["extra_attr", "inode_crtime"])
    return path


@pytest.fixture
def volume(image):
    """An open volume, which the checker accepts when the test is over."""
    volume = segnofs.Volume(image, writable=True)
    yield volume
    volume.close()
    report = segnofs.check(image)
    assert report.clean and report.clean_unmount, report.problems


def tree(root):
    """Every path below a directory of the host, with type, permissions, time and content."""
    found = {}
    for above, dirs, files in os.walk(root):
        for name in dirs + files:
            path = os.path.join(above, name)
            s = os.lstat(path)
            if os.path.islink(path):
                content = os.readlink(path)
            else:
                content = pathlib.Path(path).read_bytes() if os.path.isfile(path) else None
            found[os.path.relpath(path, root)] = (s.st_mode & 0o170777, s.st_mtime_ns, content)
    return found
