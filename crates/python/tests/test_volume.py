"""Paths, names and attributes."""

import errno
import io
import os
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest

import segnofs
from conftest import tree


def test_names(volume):
    volume.mkdir("/a", 0o700)
    volume.makedirs("/a/b/c")
    volume.makedirs("/a/b/c", exist_ok=True)
    with pytest.raises(FileExistsError):
        volume.makedirs("/a/b/c")
    volume.write_bytes("/a/f", b"1234")
    volume.link("/a/f", "/a/second")
    volume.symlink("f", "/a/link")
    volume.symlink("nowhere", "/a/dangling")
    assert sorted(volume.listdir("/a")) == ["b", "dangling", "f", "link", "second"]
    assert volume.readlink("/a/link") == "f" and volume.realpath("/a/b/../link") == "/a/f"
    assert volume.exists("/a/link") and not volume.exists("/a/dangling") and volume.islink("/a/dangling")
    assert volume.isdir("/a/b") and volume.isfile("/a/link") and not volume.isfile("/a/f/below")
    volume.replace("/a/f", "/a/b/moved")
    volume.exchange("/a/second", "/a/b")
    assert volume.isdir("/a/second") and volume.isfile("/a/b")
    assert list(volume.walk("/a")) == [
        ("/a", ["second"], sorted(volume.listdir("/a"), key=volume.listdir("/a").index)[0:0] or
         [n for n in volume.listdir("/a") if n != "second"]),
        ("/a/second", ["c"], ["moved"]),
        ("/a/second/c", [], []),
    ]
    volume.unlink("/a/b")
    volume.remove("/a/link")
    volume.rmdir("/a/second/c")
    volume.rmtree("/a")
    assert volume.listdir() == []


def test_entries(volume):
    volume.mkdir("/d")
    volume.write_bytes("/f", b"abc")
    volume.symlink("/d", "/to-d")
    volume.symlink("/f", "/to-f")
    volume.symlink("/gone", "/to-nothing")
    found = {
        e.name: (e.is_dir(), e.is_file(), e.is_symlink(), e.is_dir(follow_symlinks=False)) for e in volume.scandir()
    }
    assert found == {
        "d": (True, False, False, True),
        "f": (False, True, False, False),
        "to-d": (True, False, True, False),
        "to-f": (False, True, True, False),
        "to-nothing": (False, False, True, False),
    }
    entry = next(e for e in volume.scandir("/") if e.name == "f")
    assert entry.stat().st_size == 3 and entry.inode() == entry.stat().st_ino and os.fspath(entry) == "/f"


def test_attributes(volume):
    volume.write_bytes("/f", bytes(10_000))
    volume.chmod("/f", 0o640)
    volume.chown("/f", 1000, 2000)
    volume.utime("/f", ns=(-1, 1_700_000_000_123_456_789))
    s = volume.stat("/f")
    assert (stat.S_IMODE(s.st_mode), s.st_uid, s.st_gid, s.st_size, s.st_nlink) == (0o640, 1000, 2000, 10_000, 1)
    assert (s.st_atime_ns, s.st_mtime_ns, s.st_mtime) == (-1, 1_700_000_000_123_456_789, 1_700_000_000.1234567)
    assert s.st_blocks >= 24 and s.st_blksize == 4096
    volume.utime("/f", (1, 2.5))
    assert volume.stat("/f").st_mtime_ns == 2_500_000_000
    volume.symlink("/f", "/l")
    volume.utime("/l", ns=(5, 6), follow_symlinks=False)
    assert volume.lstat("/l").st_mtime_ns == 6 and volume.stat("/l").st_size == 10_000
    volume.truncate("/f", 3)
    assert volume.read_bytes("/f") == bytes(3)
    space = volume.statvfs()
    assert space.f_bsize == 4096 and 0 < space.f_bavail < space.f_blocks and space.f_namemax == 255


def test_extended_attributes(volume):
    volume.write_bytes("/f", b"")
    volume.symlink("/f", "/l")
    volume.setxattr("/l", "user.origin", b"camera")
    assert volume.listxattr("/f") == ["user.origin"] and volume.getxattr("/f", b"user.origin") == b"camera"
    assert volume.listxattr("/l", follow_symlinks=False) == []
    volume.removexattr("/f", "user.origin")
    with pytest.raises(OSError) as e:
        volume.getxattr("/f", "user.origin")
    assert e.value.errno == errno.ENODATA


def test_errors_have_errno_and_path(volume, tmp_path, image):
    volume.mkdir("/d")
    volume.write_bytes("/d/f", b"")
    volume.symlink("/loop", "/loop")
    for call, kind, number, name in [
        (lambda: volume.open("/none"), FileNotFoundError, errno.ENOENT, "/none"),
        (lambda: volume.mkdir("/d"), FileExistsError, errno.EEXIST, "/d"),
        (lambda: volume.listdir("/d/f"), NotADirectoryError, errno.ENOTDIR, "/d/f"),
        (lambda: volume.open("/d", "rb"), IsADirectoryError, errno.EISDIR, "/d"),
        (lambda: volume.rmdir("/d"), OSError, errno.ENOTEMPTY, "/d"),
        (lambda: volume.stat("/loop"), OSError, errno.ELOOP, "/loop"),
        (lambda: volume.mkdir("/" + "n" * 300), OSError, errno.ENAMETOOLONG, "/" + "n" * 300),
        (lambda: volume.stat("a\0b"), OSError, errno.EINVAL, "a\0b"),
        (lambda: segnofs.Volume(image, writable=True), OSError, errno.EBUSY, str(image)),
        (lambda: segnofs.Volume(tmp_path / "none.img"), FileNotFoundError, errno.ENOENT, str(tmp_path / "none.img")),
        (lambda: segnofs.mkfs(image, 64 << 20), FileExistsError, errno.EEXIST, str(image)),
    ]:
        with pytest.raises(kind) as e:
            call()
        assert (e.value.errno, e.value.filename) == (number, name), e.value


def test_files_that_are_no_volumes(tmp_path):
    (tmp_path / "zeros").write_bytes(bytes(64 << 20))
    (tmp_path / "short").write_bytes(b"text")
    (tmp_path / "empty").write_bytes(b"")
    os.mkfifo(tmp_path / "fifo")
    # A sparse image whose header promises more than there is.
    (tmp_path / "sparse").write_bytes(bytes.fromhex("3aff26ed 0100 0000 1c00 0c00 00100000 00400000 01000000 00000000"))
    for name in ["zeros", "short", "empty", "fifo", "sparse", ".", "/dev/null", "/proc/self/mem"]:
        for call in (segnofs.Volume, segnofs.check, lambda p: segnofs.Volume(p, writable=True)):
            with pytest.raises(OSError) as e:
                call(tmp_path / name)
            assert e.value.strerror
    with pytest.raises(segnofs.CorruptError) as e:
        segnofs.Volume(tmp_path / "zeros")
    assert e.value.errno == 117 and e.value.filename.endswith("zeros")


def test_read_only_unless_told_otherwise(image):
    with segnofs.Volume(image) as volume:
        for call in (
            lambda: volume.mkdir("/d"),
            lambda: volume.open("/f", "w"),
            lambda: volume.unlink("/f"),
            lambda: volume.setxattr("/", "user.a", b""),
        ):
            with pytest.raises(OSError) as e:
                call()
            assert e.value.errno in (errno.EROFS, errno.ENOENT)
        assert volume.statvfs().f_flag & os.ST_RDONLY
        # Several may read it.
        with segnofs.Volume(image) as other:
            assert other.listdir() == volume.listdir()


def test_names_that_are_not_utf8(volume):
    name = os.fsdecode(b"/caf\xe9")
    volume.write_bytes(name, b"x")
    assert volume.listdir() == [name[1:]] and volume.read_bytes(b"/caf\xe9") == b"x"
    volume.symlink(b"\xff", b"/\xfe")
    assert os.fsencode(volume.readlink(b"/\xfe")) == b"\xff"
    with pytest.raises(FileNotFoundError) as e:
        volume.stat(b"/\xfd")
    assert e.value.filename == os.fsdecode(b"/\xfd")
    with pytest.raises(UnicodeEncodeError):
        volume.stat("\ud800")
    with pytest.raises(TypeError):
        volume.stat(7)


def test_copies(volume, tmp_path):
    source = tmp_path / "source"
    (source / "sub/empty").mkdir(parents=True)
    (source / "sub/file").write_bytes(os.urandom(200_000))
    (source / os.fsdecode(b"\xe9")).write_bytes(b"odd")
    (source / "link").symlink_to("sub/file")
    (source / "dangling").symlink_to("/nowhere")
    os.chmod(source / "sub/file", 0o755)
    os.chmod(source / "sub", 0o750)
    os.utime(source / "sub", ns=(1, 2))
    volume.copy_in(source, "/copy")
    volume.copy_out("/copy", tmp_path / "back")
    assert tree(source) == tree(tmp_path / "back") != {}
    for call in (lambda: volume.copy_in(source, "/copy"), lambda: volume.copy_out("/copy", tmp_path / "back")):
        with pytest.raises(FileExistsError):
            call()
    with pytest.raises(OSError):
        volume.copy_in("/dev/null", "/null")
    volume.chmod("/copy/sub/file", 0o4755)
    volume.copy_out("/copy/sub/file", tmp_path / "one")
    assert (tmp_path / "one").stat().st_mode == 0o100755


def test_copies_keep_owners_and_attributes_when_asked(volume, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "file").write_text("x")
    (source / "link").symlink_to("file")
    owner = (os.geteuid(), os.getegid())
    if owner[0] == 0:
        owner = (1234, 1235)
        for path in (source, source / "file", source / "link"):
            os.chown(path, *owner, follow_symlinks=False)
    os.chmod(source / "file", 0o4755)
    os.setxattr(source, "user.dir", b"d")
    os.setxattr(source / "file", "user.file", b"f")
    volume.copy_in(source, "/plain")
    assert volume.listxattr("/plain/file") == [] and volume.stat("/plain/file").st_uid == 0
    volume.copy_in(source, "/kept", owners=True, xattrs=True)
    for path in ("/kept", "/kept/file", "/kept/link"):
        found = volume.lstat(path)
        assert (found.st_uid, found.st_gid) == owner
    assert volume.stat("/kept/file").st_mode == 0o104755
    assert volume.getxattr("/kept", "user.dir") == b"d" and volume.getxattr("/kept/file", "user.file") == b"f"
    volume.setxattr("/kept/file", "trusted.t", b"t")
    volume.copy_out("/kept", tmp_path / "back", owners=True, xattrs=True)
    for path in ("", "file", "link"):
        found = os.lstat(tmp_path / "back" / path)
        assert (found.st_uid, found.st_gid) == owner
    assert os.listxattr(tmp_path / "back/file") == ["user.file"] and os.listxattr(tmp_path / "back") == ["user.dir"]
    assert os.stat(tmp_path / "back/file").st_mode == 0o100755
    volume.copy_out("/kept", tmp_path / "without")
    assert os.listxattr(tmp_path / "without/file") == []


class OnlyReadinto:
    """A file object without read."""

    def __init__(self, data):
        self.inner = io.BytesIO(data)
        self.seek = self.inner.seek
        self.readinto = self.inner.readinto


def test_file_objects_are_sources(image):
    with open(image, "r+b") as file, segnofs.Volume(file, writable=True) as volume:
        volume.write_bytes("/f", b"content" * 10000)
    assert segnofs.check(image).clean
    with open(image, "rb") as file:
        with segnofs.Volume(file) as volume:
            assert volume.read_bytes("/f") == b"content" * 10000
            with pytest.raises(OSError):
                volume.mkdir("/d")
        assert segnofs.check_replayed(file).clean
    memory = io.BytesIO(image.read_bytes())
    with segnofs.Volume(memory, writable=True) as volume:
        volume.mkdir("/d")
    with segnofs.Volume(OnlyReadinto(memory.getvalue())) as volume:
        assert volume.isdir("/d")
    assert segnofs.check(memory).clean
    with segnofs.Volume(image) as volume:
        assert not volume.isdir("/d")


def test_file_objects_that_fail_are_errors(image):
    class Failing(io.BytesIO):
        def read(self, size=-1):
            raise OSError(errno.ENXIO, "gone")

    class TooMuch(io.BytesIO):
        def read(self, size=-1):
            return super().read(size) + b"more"

    data = image.read_bytes()
    with pytest.raises(OSError, match="block 0 failed: No such device or address"):
        segnofs.Volume(Failing(data))
    with pytest.raises(OSError):
        segnofs.Volume(TooMuch(data))
    with pytest.raises(TypeError, match="one device"):
        segnofs.Volume(io.BytesIO(data), devices=["other"])


def test_copies_do_not_follow_links(volume, tmp_path):
    """A file that becomes a link after it was listed is an error, and a link in the place of the copy as well."""
    source, victim = tmp_path / "source", tmp_path / "victim"
    victim.write_text("secret")
    source.mkdir()
    (source / "file").write_text("public")
    volume.copy_in(source, "/copy")
    (tmp_path / "link").symlink_to(victim)
    with pytest.raises(FileExistsError):
        volume.copy_out("/copy/file", tmp_path / "link")
    assert victim.read_text() == "secret"
    real = os.stat

    def replaced(path, **options):
        found = real(path, **options)
        if path == "file" and (source / "file").is_file():
            (source / "file").unlink()
            (source / "file").symlink_to(victim)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "stat", replaced)
        with pytest.raises(OSError):
            volume.copy_in(source, "/second")
    assert not volume.exists("/second/file")


def test_label_uuid_and_features(tmp_path):
    path = tmp_path / "i"
    segnofs.mkfs(path, 64 << 20, label="Fotos ä", uuid=bytes(range(16)), root_owner=(5, 6))
    with segnofs.Volume(path, writable=True) as volume:
        assert volume.label == "Fotos ä" and volume.uuid.bytes == bytes(range(16))
        assert volume.stat("/").st_uid == 5
        volume.label = "other"
        assert volume.label == "other"
        volume.sync()
    with pytest.raises(ValueError, match="shiny"):
        segnofs.mkfs(path, features=["shiny"])
    with pytest.raises(FileExistsError):
        segnofs.mkfs(path)
    segnofs.mkfs(path, force=True)
    with segnofs.Volume(path) as volume:
        assert volume.label == ""


def test_android_sparse_images(volume, image, tmp_path):
    volume.write_bytes("/f", b"from the host")
    volume.close()
    sparse = tmp_path / "sparse.img"
    subprocess.run(["img2simg", image, sparse], check=True)
    with segnofs.Volume(sparse) as found:
        assert found.read_bytes("/f") == b"from the host"
    with pytest.raises(OSError, match="can only be read"):
        segnofs.Volume(sparse, writable=True)


def test_data_after_a_crash(image, tmp_path):
    volume = segnofs.Volume(image, writable=True)
    volume.write_bytes("/synced", b"1")
    volume.sync()
    with volume.open("/fsynced", "wb", buffering=0) as f:
        f.write(b"2")
        f.fsync()
    cut = tmp_path / "cut.img"
    cut.write_bytes(image.read_bytes())
    volume.close()
    before = cut.read_bytes()
    with segnofs.Volume(cut) as shown:
        assert shown.read_bytes("/fsynced") == b"2"
    with segnofs.Volume(cut, skip_recovery=True) as old:
        assert old.listdir() == ["synced"]
    assert cut.read_bytes() == before
    with segnofs.Volume(cut, writable=True) as new:
        assert new.read_bytes("/fsynced") == b"2"


def test_an_external_journal_is_named(image, tmp_path):
    side = tmp_path / "side"
    with open(side, "wb") as f:
        f.truncate(8 << 20)
    volume = segnofs.Volume(image, writable=True, journal=side)
    with volume.open("/fsynced", "wb", buffering=0) as f:
        f.write(b"2")
        f.fsync()
    cut, side_cut = tmp_path / "cut.img", tmp_path / "side-cut"
    cut.write_bytes(image.read_bytes())
    side_cut.write_bytes(side.read_bytes())
    volume.close()
    before = cut.read_bytes(), side_cut.read_bytes()
    calls = (
        lambda **journal: segnofs.Volume(cut, **journal).close(),
        lambda **journal: segnofs.extract(cut, tmp_path / "tree", **journal),
        lambda **journal: segnofs.extract(cut, tar=tmp_path / "tar", **journal),
        lambda **journal: segnofs.build(cut, tmp_path / "built", **journal),
    )
    for call in calls:
        with pytest.raises(OSError, match="external journal") as e:
            call()
        assert e.value.errno == errno.ENODEV
        call(journal=side_cut)
    with segnofs.Volume(cut, journal=side_cut) as shown:
        assert shown.read_bytes("/fsynced") == b"2"
    with segnofs.Volume(cut, skip_recovery=True) as old:
        assert old.listdir() == []
    assert (tmp_path / "tree/fsynced").read_bytes() == b"2"
    assert (cut.read_bytes(), side_cut.read_bytes()) == before
    with segnofs.Volume(cut, writable=True, journal=side_cut):
        pass
    with segnofs.Volume(cut) as clean:
        assert clean.read_bytes("/fsynced") == b"2"


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [(16, 14, "log_blocksize 14"), (2180, 0x8000, "device_alias"), (2180, 1 << 31, "0x80000000")],
)
def test_unsupported_volumes_are_named(image, at, value, said):
    with open(image, "r+b") as storage:
        for copy in (0, 4096):
            storage.seek(copy + 1024 + at)
            storage.write(value.to_bytes(4, "little"))
    for use in (segnofs.Volume, segnofs.check):
        with pytest.raises(OSError) as e:
            use(image)
        assert e.value.errno == errno.EOPNOTSUPP and said in str(e.value)


def split(image, first, second):
    """Makes two devices of an image: the second has the last segments. Both paths are recorded, as a format of two devices does."""
    content, tail = bytearray(image.read_bytes()), 4
    segments = int.from_bytes(content[1072:1076], "little")
    # One segment before the first has the superblocks.
    start = (segments + 1 - tail) << 21
    table = b"".join(
        os.fsencode(path).ljust(64, b"\0") + count.to_bytes(4, "little")
        for path, count in ((first, segments - tail), (second, tail))
    )
    for copy in (0, 4096):
        content[copy + 3225 : copy + 3225 + len(table)] = table
    first.write_bytes(content[:start])
    second.write_bytes(content[start:])


def test_no_path_is_opened_because_an_image_records_it(volume, image, tmp_path):
    volume.write_bytes("/file", b"content")
    volume.close()
    # The table of devices has room for short paths only.
    with tempfile.TemporaryDirectory() as short:
        first, second = Path(short, "1"), Path(short, "2")
        split(image, first, second)
        calls = (
            lambda **devices: segnofs.Volume(first, **devices).close(),
            lambda **devices: segnofs.Volume(first, writable=True, **devices).close(),
            lambda **devices: segnofs.check(first, **devices),
            lambda **devices: segnofs.extract(first, tmp_path / "tree", **devices),
            lambda **devices: segnofs.extract(first, tar=tmp_path / "tar", **devices),
            lambda **devices: segnofs.build(first, tmp_path / "built", **devices),
        )
        for call in calls:
            before = second.read_bytes()
            with pytest.raises(OSError, match="opened only if the caller names them") as e:
                call()
            assert e.value.errno == errno.EINVAL and str(second) in str(e.value)
            assert second.read_bytes() == before
            call(devices=[second])
        assert segnofs.check(first, devices=(second,)).clean
        with segnofs.Volume(first, devices=[os.fsencode(second)]) as shown:
            assert shown.read_bytes("/file") == b"content"
        segnofs.mkfs(first, force=True)
        assert segnofs.check(first).clean


def test_damage_is_reported(volume, image):
    volume.makedirs("/d")
    ino = volume.stat("/d").st_ino
    volume.close()
    content = bytearray(image.read_bytes())
    # The footer of a node names the node and its inode.
    footer = ino.to_bytes(4, "little") * 2
    blocks = [at for at in range(0, len(content), 4096) if content[at + 4072 : at + 4080] == footer]
    assert blocks
    for at in blocks:
        content[at + 4072 : at + 4080] = bytes(8)
    image.write_bytes(content)
    with segnofs.Volume(image) as damaged, pytest.raises(segnofs.CorruptError) as e:
        damaged.stat("/d")
    assert str(ino) in str(e.value)
    report = segnofs.check(image)
    assert not report.clean and report.errors >= len(report.problems) > 0
    assert any(str(ino) in p.text for p in report.problems), report.problems
    assert len(segnofs.check(image, max_problems=1).problems) == 1
    # Whole again, for the fixture.
    segnofs.mkfs(image, force=True)
    with segnofs.Volume(image, writable=True):
        pass


def test_a_directory_with_two_names_is_walked_once(image, tmp_path):
    with segnofs.Volume(image, writable=True) as volume:
        volume.makedirs("/a/b")
        volume.mkdir("/c")
        volume.write_bytes("/c/f", b"x")
        inner, other = volume.stat("/a/b").st_ino, volume.stat("/c").st_ino

    def entry(ino):
        return ino.to_bytes(4, "little") + b"\x01\x00\x02"

    image.write_bytes(image.read_bytes().replace(entry(inner), entry(other)))
    with segnofs.Volume(image) as volume:
        seen = []
        with pytest.raises(segnofs.CorruptError, match=f"nid {other}: a directory with two names"):
            for path, _, files in volume.walk():
                seen.append((path, files))
        assert sorted(seen) == [("/", []), ("/a", []), ("/c", ["f"])]
        out = tmp_path / "out"
        with pytest.raises(segnofs.CorruptError):
            volume.copy_out("/", out)
        assert (out / "c/f").read_bytes() == b"x" and not (out / "a/b").exists()
