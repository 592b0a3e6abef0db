"""Images of whole trees."""

import os
import subprocess
import tarfile
import uuid

import pytest

import segnofs
from conftest import tree


@pytest.fixture
def source(tmp_path):
    root = tmp_path / "source"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "text").write_text("content " * 50_000)
    (root / "empty").touch()
    (root / "link").symlink_to("sub/text")
    os.link(root / "empty", root / "second")
    for path in [root / "sub" / "text", root / "empty", root / "sub", root]:
        os.utime(path, (1_600_000_000, 1_600_000_000))
    os.utime(root / "link", (1_600_000_000, 1_600_000_000), follow_symlinks=False)
    return root


def test_round_trip(source, tmp_path):
    image, back = tmp_path / "image", tmp_path / "back"
    report = segnofs.build(source, image)
    assert (report.files, report.content_bytes, report.compressed_files, report.notes) == (5, 400_000, 0, [])
    assert image.stat().st_size == report.image_bytes and segnofs.check(image).clean
    assert subprocess.run(["fsck.f2fs", "--dry-run", image], capture_output=True).returncode == 0
    taken = segnofs.extract(image, back)
    assert (taken.files, taken.bytes, taken.renamed, taken.incomplete) == (5, 400_000, [], 0)
    assert tree(back) == tree(source)
    assert (back / "empty").stat().st_nlink == 2


def test_options(source, tmp_path):
    image, again = tmp_path / "image", tmp_path / "again"
    given = uuid.UUID("7c9e6679-7425-40de-944b-e07fc1f90ae7")
    chosen = dict(label="system", uuid=given, time=7, owner=(70_000, 3), compress="zstd:5", log_cluster=4)
    report = segnofs.build(source, image, read_only=True, **chosen)
    assert report.uuid == given and report.compressed_files == 1 and report.saved_bytes > 300_000
    with segnofs.Volume(image) as volume:
        found = volume.stat("/sub/text")
        assert volume.label == "system" and volume.read_bytes("/sub/text") == b"content " * 50_000
        assert (found.st_mtime, found.st_uid, found.st_gid) == (7, 70_000, 3)
    segnofs.build(os.fsencode(source), str(again), read_only=True, **chosen)
    assert image.read_bytes() == again.read_bytes()
    # Later times only.
    segnofs.build(source, image, force=True, source_date_epoch=1_500_000_000)
    with segnofs.Volume(image) as volume:
        assert volume.stat("/sub/text").st_mtime == 1_500_000_000
    segnofs.build(source, image, force=True, source_date_epoch=1_700_000_000, size=64 << 20)
    assert image.stat().st_size == 64 << 20
    with segnofs.Volume(image) as volume:
        assert volume.stat("/sub/text").st_mtime == 1_600_000_000


def test_sparse(source, tmp_path):
    raw, sparse, unpacked = (tmp_path / n for n in ("raw", "sparse", "unpacked"))
    segnofs.build(source, raw)
    report = segnofs.build(source, sparse, sparse=True)
    assert sparse.stat().st_size < report.image_bytes and segnofs.check(sparse).clean
    subprocess.run(["simg2img", sparse, unpacked], check=True)
    assert unpacked.read_bytes() == raw.read_bytes()
    assert segnofs.extract(sparse, tmp_path / "back").files == 5


def test_archives(source, tmp_path):
    image, again, archive = (tmp_path / n for n in ("image", "again", "archive"))
    segnofs.build(source, image, time=7)
    segnofs.extract(image, tar=archive)
    with tarfile.open(archive) as read:
        assert sorted(read.getnames()) == [".", "./empty", "./link", "./second", "./sub", "./sub/text"]
    segnofs.build(archive, again, time=7)
    assert image.read_bytes() == again.read_bytes()
    part = segnofs.extract(image, tmp_path / "part", path="/sub")
    assert part.bytes == 400_000 and os.listdir(tmp_path / "part") == ["text"]


def test_manifest(source, tmp_path):
    image, again, manifest = (tmp_path / n for n in ("image", "again", "manifest"))
    report = segnofs.build(source, image, owner=(70_000, 80_000))
    segnofs.extract(image, tmp_path / "back", manifest=manifest)
    segnofs.build(tmp_path / "back", again, manifest=manifest, uuid=report.uuid)
    with segnofs.Volume(again) as volume:
        found = volume.stat("/sub/text")
        assert (found.st_uid, found.st_gid, found.st_mtime) == (70_000, 80_000, 1_600_000_000)


def test_preserve(source, tmp_path):
    image = tmp_path / "image"
    (source / "empty").chmod(0o4755)
    segnofs.build(source, image)
    taken = segnofs.extract(image, tmp_path / "plain")
    assert taken.left_out == {"setid": 1} and (tmp_path / "plain" / "empty").stat().st_mode == 0o100755
    for preserve in (["setid"], ("caps", "all")):
        back = tmp_path / preserve[-1]
        assert segnofs.extract(image, back, preserve=preserve).left_out == {}
        assert (back / "empty").stat().st_mode == 0o104755
    assert segnofs.extract(image, tar=tmp_path / "tar").left_out == {}
    with pytest.raises(ValueError, match="setuid"):
        segnofs.extract(image, tmp_path / "none", preserve=["setuid"])
    with pytest.raises(TypeError):
        segnofs.extract(image, tmp_path / "none", preserve="setid")


def test_a_copy_is_as_open_as_its_source(source, tmp_path):
    image = tmp_path / "image"
    segnofs.build(source, image)
    image.chmod(0o600)
    segnofs.extract(image, tar=tmp_path / "tar")
    segnofs.build(image, tmp_path / "again")
    assert [(tmp_path / name).stat().st_mode for name in ("tar", "again")] == [0o100600] * 2


def test_refused(source, tmp_path):
    image = tmp_path / "image"
    with pytest.raises(OSError) as small:
        segnofs.build(source, image, size=20 << 20)
    assert "suffice" in str(small.value) and not image.exists()
    for wrong in ({"compress": "brotli"}, {"compress": "lz4:99"}, {"compress": "lz4", "log_cluster": 9}):
        with pytest.raises(ValueError):
            segnofs.build(source, image, **wrong)
    with pytest.raises(FileNotFoundError):
        segnofs.build(tmp_path / "none", image)
    segnofs.build(source, image)
    with pytest.raises(FileExistsError):
        segnofs.build(source, image)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for target in ({}, {"directory": tmp_path / "a", "tar": tmp_path / "b"}):
        with pytest.raises(TypeError):
            segnofs.extract(image, **target)
    with pytest.raises(OSError):
        segnofs.extract(image, tmp_path / "full")
    with pytest.raises(OSError):
        segnofs.extract(image, tar=tmp_path / "full" / "file")
    assert os.listdir(tmp_path / "full") == ["file"]
    with pytest.raises(OSError):
        segnofs.extract(source / "sub" / "text", tmp_path / "c")
