"""Android super images: what other readers of their metadata unpack is what is read in place."""
import hashlib
import pathlib
import struct
import subprocess
import sys

import pytest

import segnofs

SECTOR = 512
METADATA_MAX = 65536
SIZE = 256 << 20


def seal(record, at):
    """Puts the SHA-256 of a record into it, as of a record with zeros there."""
    record[at : at + 32] = bytes(32)
    record[at : at + 32] = hashlib.sha256(record).digest()


def metadata(partitions):
    """The tables of a slot: names with pieces of (first sector, sectors)."""
    entries, extents = bytearray(), bytearray()
    for name, pieces in partitions:
        first = len(extents) // 24
        entries += struct.pack("<36sIIII", name.encode(), 1, first, len(pieces), 1 if pieces else 0)
        for start, sectors in pieces:
            extents += struct.pack("<QIQI", sectors, 0, start, 0)
    groups = struct.pack("<36sIQ", b"default", 0, 0) + struct.pack("<36sIQ", b"main_a", 0, SIZE)
    devices = struct.pack("<QIIQ36sI", 2048, 1 << 20, 0, SIZE, b"super", 0)
    arrays = [(entries, 52), (extents, 24), (groups, 48), (devices, 64)]
    tables = b"".join(bytes(array) for array, _ in arrays)
    header = bytearray(struct.pack("<IHHI32sI", 0x414C5030, 10, 0, 128, b"", len(tables)))
    header += hashlib.sha256(tables).digest()
    offset = 0
    for array, size in arrays:
        header += struct.pack("<III", offset, len(array) // size, size)
        offset += len(array)
    assert len(header) == 128
    seal(header, 12)
    return header + tables


def super_image(path, slots, volumes):
    """An image with these slots, and the bytes of volumes in the pieces of their partitions."""
    geometry = bytearray(struct.pack("<II32sIII", 0x616C4467, 52, b"", METADATA_MAX, len(slots), 4096))
    seal(geometry, 8)
    with open(path, "wb") as image:
        image.truncate(SIZE)
        for at in (4096, 8192):
            image.seek(at)
            image.write(geometry)
        for number, partitions in enumerate(slots):
            for copy in (0, 1):
                image.seek(12288 + (copy * len(slots) + number) * METADATA_MAX)
                image.write(metadata(partitions))
            for name, pieces in partitions:
                content = volumes.get(name, b"")
                for start, sectors in pieces:
                    image.seek(start * SECTOR)
                    image.write(content[: sectors * SECTOR])
                    content = content[sectors * SECTOR :]


def volume(path, text):
    segnofs.mkfs(path, 64 << 20)
    with segnofs.Volume(path, writable=True) as volume:
        volume.write_bytes("/build.prop", text.encode())
        volume.write_bytes("/large", text.encode() * 400_000)
    return path.read_bytes()


@pytest.fixture
def image(tmp_path):
    """Two slots; the volume of vendor_a is in three pieces, the last of which comes first."""
    whole = (64 << 20) // SECTOR
    third = whole // 3 // 8 * 8
    vendor = [(200_000, third), (2048, third), (100_000, whole - 2 * third)]
    slot_a = [("vendor_a", vendor), ("vendor_b", []), ("odm_a", [(350_000, whole)])]
    slot_b = [("vendor_b", [(350_000, whole)]), ("vendor_a", vendor)]
    contents = {"vendor_a": volume(tmp_path / "v", "vendor"), "odm_a": volume(tmp_path / "o", "odm")}
    path = tmp_path / "super.img"
    super_image(path, [slot_a, slot_b], contents)
    return path, contents


def unpacked_by_others(path, to):
    """Partitions as lpunpack of liblp and as unsuper write them."""
    for tool, args in [("lpunpack", ["-o", "OUT"]), ("unsuper", ["OUT", "-q"])]:
        out = to / tool
        out.mkdir()
        program = pathlib.Path(sys.executable).with_name(tool)
        subprocess.run([program, path, *(out if arg == "OUT" else arg for arg in args)], check=True)
        yield tool, out


def test_entries_are_what_other_readers_unpack(image, tmp_path):
    path, contents = image
    for name, content in contents.items():
        with segnofs.Volume(f"{path}#{name}") as volume:
            assert volume.read_bytes("/build.prop").decode() == name.removesuffix("_a")
            assert len(volume.read_bytes("/large")) == 400_000 * len(name.removesuffix("_a"))
        assert segnofs.check(f"{path}#{name}").clean
        unpacked = tmp_path / name
        unpacked.mkdir()
        for tool, out in unpacked_by_others(path, unpacked):
            assert (out / f"{name}.img").read_bytes() == content, tool


def test_what_is_written_in_place_others_unpack_as_a_volume(image, tmp_path):
    path, _ = image
    with segnofs.Volume(f"{path}#vendor_a", writable=True) as volume:
        for n in range(50):
            volume.write_bytes(f"/new{n}", bytes([n]) * 100_000)
        volume.unlink("/large")
    before = path.read_bytes()
    for tool, out in unpacked_by_others(path, tmp_path):
        assert segnofs.check(out / "vendor_a.img").clean, tool
        with segnofs.Volume(out / "vendor_a.img") as volume:
            assert volume.read_bytes("/new49") == bytes([49]) * 100_000
        # The other volume, and the tables, are as they were.
        with segnofs.Volume(out / "odm_a.img") as volume:
            assert volume.read_bytes("/build.prop") == b"odm"
    assert path.read_bytes() == before


def test_a_name_without_slot_means_the_only_one_with_room(image):
    path, _ = image
    with segnofs.Volume(f"{path}#odm") as volume:
        assert volume.read_bytes("/build.prop") == b"odm"
    with pytest.raises(OSError, match="several partitions") as e:
        segnofs.Volume(f"{path}#vendor")
    assert "vendor_a" in str(e.value)
