"""The tests that fsspec has for implementations, and what is special to volumes."""

import os
import pickle

import fsspec
import pytest
from fsspec.tests import abstract

import segnofs
from segnofs.fsspec import SegnoFileSystem


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self, image):
        fs = SegnoFileSystem(str(image), writable=True, auto_mkdir=True)
        yield fs
        fs.close()
        assert segnofs.check(image).clean

    @pytest.fixture
    def fs_path(self, fs):
        fs.mkdir("/below")
        return "/below"


class TestCopy(abstract.AbstractCopyTests, Fixtures):
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):
    pass


@pytest.fixture
def filled(image):
    with segnofs.Volume(image, writable=True) as volume:
        volume.makedirs("/photos/2026")
        volume.write_bytes("/photos/list.txt", b"one\ntwo\n")
        volume.write_bytes("/photos/2026/a.jpg", bytes(5000))
        volume.symlink("list.txt", "/photos/link")
        volume.symlink("/photos", "/photos/2026/circle")
        volume.write_bytes(b"/caf\xe9", b"odd")
    return image


def test_urls(filled, tmp_path):
    url = f"segno://photos/list.txt::{filled}"
    with fsspec.open(url, "rb") as f:
        assert f.read() == b"one\ntwo\n"
    with fsspec.open(f"segno:///photos/list.txt::file://{filled}", "r") as f:
        assert f.readlines() == ["one\n", "two\n"]
    f = fsspec.open(url).open()
    assert f.read(3) == b"one"
    f.close()
    with fsspec.open(f"segno://new/file::{filled}", "wb", segno={"writable": True, "auto_mkdir": True}) as f:
        f.write(b"new")
    assert fsspec.filesystem("segno", fo=str(filled)).cat("/new/file") == b"new"
    with fsspec.open(f"segno://photos/list.txt::simplecache::file://{filled}", simplecache={"cache_storage": str(tmp_path / "c")}) as f:
        assert f.read() == b"one\ntwo\n"
    with fsspec.open(f"segno://chained/file::file://{filled}", "wb") as f:
        f.write(b"chained")
    with fsspec.open(f"segno://chained/file::{filled}", "rb") as f:
        assert f.read() == b"chained"
    assert segnofs.check(filled).clean
    with pytest.raises(OSError):
        fsspec.open(f"segno://x::{filled}", "wb", segno={"writable": False}).open()
    with pytest.raises(FileNotFoundError):
        fsspec.open(f"segno://x::{filled}.none").open()
    with pytest.raises(ValueError):
        fsspec.open("segno://x::memory://disk.img").open()


def test_listing(filled):
    fs = SegnoFileSystem(str(filled))
    assert fs.ls("", detail=False) == sorted(["/photos", os.fsdecode(b"/caf\xe9")])
    assert fs.find("/photos") == ["/photos/2026/a.jpg", "/photos/2026/circle", "/photos/link", "/photos/list.txt"]
    assert fs.glob("/photos/*.txt") == ["/photos/list.txt"]
    assert {i["name"]: (i["type"], i["size"]) for i in fs.ls("/photos")} == {
        "/photos/2026": ("directory", fs.info("/photos/2026")["size"]),
        "/photos/link": ("file", 8),
        "/photos/list.txt": ("file", 8),
    }
    assert fs.info("/photos/2026/circle")["destination"] == "/photos"
    assert fs.ls("/photos/list.txt", detail=False) == ["/photos/list.txt"]
    assert fs.du("/photos") >= 5008 and fs.modified("/photos/list.txt").tzinfo
    assert fs.cat(os.fsdecode(b"/caf\xe9")) == b"odd"
    with pytest.raises(FileNotFoundError):
        fs.ls("/none")
    again = pickle.loads(pickle.dumps(fs))
    assert again.cat("/photos/list.txt") == b"one\ntwo\n"


@pytest.mark.parametrize("start", [None, 0, 3, -3, 100])
@pytest.mark.parametrize("end", [None, 0, 5, -2, 100])
def test_ranges_are_slices(filled, start, end):
    fs = SegnoFileSystem(str(filled))
    assert fs.cat_file("/photos/list.txt", start, end) == b"one\ntwo\n"[start:end]


def test_owners_and_attributes_when_asked(filled, tmp_path):
    (tmp_path / "in").mkdir()
    source = tmp_path / "in/f"
    source.write_bytes(b"x")
    os.setxattr(source, "user.a", b"1")
    fs = SegnoFileSystem(str(filled))
    fs.put(str(source), "/f", owners=True, xattrs=True)
    fs.put(str(source), "/plain")
    assert fs.volume.getxattr("/f", "user.a") == b"1" and fs.volume.listxattr("/plain") == []
    assert fs.info("/f")["uid"] == os.geteuid()
    fs.volume.chown("/f", os.geteuid(), os.getegid())
    fs.get("/f", str(tmp_path / "out"), owners=True, xattrs=True)
    assert os.getxattr(tmp_path / "out", "user.a") == b"1"
    fs.close()


def test_a_file_that_is_open_stays_open(filled):
    fs = SegnoFileSystem(str(filled))
    with fs.open("/photos/list.txt") as f:
        with pytest.raises(OSError, match="writable=True"):
            fs.pipe("/new", b"")
        assert f.read() == b"one\ntwo\n"
    fs.pipe("/new", b"1")
    assert fs.cat("/new") == b"1"
    fs.close()


def test_changes(filled):
    fs = SegnoFileSystem(str(filled), writable=True)
    fs.mv("/photos/list.txt", "/photos/2026")
    fs.mv("/photos/2026/a.jpg", "/b.jpg")
    fs.touch("/new")
    fs.touch("/b.jpg", truncate=False)
    fs.rm("/photos/2026/circle")
    assert fs.find("/") == sorted(["/b.jpg", os.fsdecode(b"/caf\xe9"), "/new", "/photos/2026/list.txt", "/photos/link"])
    assert fs.size("/b.jpg") == 5000
    fs.rm("/photos", recursive=True)
    with pytest.raises(FileExistsError):
        fs.mkdir("/new")
    with pytest.raises(FileNotFoundError):
        fs.mkdir("/x/y", create_parents=False)
    with pytest.raises(NotImplementedError), fs.transaction:
        fs.open("/t", "wb")
    fs.sync()
    fs.close()
    assert segnofs.check(filled).clean
