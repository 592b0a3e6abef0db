import errno

import pytest

import segnofs


def left_by_a_crash(image, tmp_path, journal=None):
    """Copies of the image and its journal with a file that is fsynced and in no checkpoint."""
    volume = segnofs.Volume(image, writable=True, journal=journal)
    with volume.open("/fsynced", "wb", buffering=0) as f:
        f.write(b"2")
        f.fsync()
    copies = []
    for path in filter(None, (image, journal)):
        copies.append(tmp_path / f"{path.name}-cut")
        copies[-1].write_bytes(path.read_bytes())
    volume.close()
    return copies


def test_what_a_crash_left_is_replayed_in_memory_and_on_request(image, tmp_path):
    [cut] = left_by_a_crash(image, tmp_path)
    before = cut.read_bytes()
    report = segnofs.check_replayed(cut, quick=True)
    assert report.clean and report.replayed and not report.quick and not report.repairable
    assert segnofs.plan_repair(cut) == [] and segnofs.repair(cut) == [] and cut.read_bytes() == before
    segnofs.replay(cut)
    report = segnofs.check_replayed(cut, quick=True, data=True)
    assert report.clean and not report.replayed
    assert segnofs.check_replayed(cut, quick=True).quick
    with segnofs.Volume(cut, skip_recovery=True) as volume:
        assert volume.read_bytes("/fsynced") == b"2"
        with pytest.raises(OSError) as e:
            segnofs.replay(cut)
        assert e.value.errno == errno.EBUSY


def test_an_external_journal_is_not_given_up(image, tmp_path):
    side = tmp_path / "side"
    side.write_bytes(bytes(8 << 20))
    cut, side_cut = left_by_a_crash(image, tmp_path, side)
    before = cut.read_bytes()
    report = segnofs.check_replayed(cut)
    assert not report.clean and not report.repairable and "journal" in report.replay_error
    with pytest.raises(segnofs.CorruptError, match="external journal"):
        segnofs.repair(cut)
    with pytest.raises(OSError, match="external journal") as e:
        segnofs.replay(cut)
    assert e.value.errno == errno.ENODEV and cut.read_bytes() == before
    assert segnofs.check_replayed(cut, journal=side_cut).clean
    segnofs.replay(cut, journal=side_cut)
    with segnofs.Volume(cut) as volume:
        assert volume.read_bytes("/fsynced") == b"2"


def test_damage_is_repaired_as_planned_and_not_before(volume, image):
    volume.mkdir("/d")
    ino = volume.stat("/d").st_ino
    volume.close()
    content, footer = bytearray(image.read_bytes()), ino.to_bytes(4, "little") * 2
    for at in range(0, len(content), 4096):
        if content[at + 4072 : at + 4080] == footer:
            content[at + 12] = 9
    image.write_bytes(content)
    report = segnofs.check_replayed(image, max_problems=1)
    assert not report.clean and report.repairable and report.replay_error is None and len(report.problems) == 1
    plan = segnofs.plan_repair(image)
    assert any(a.path == "/d" and a.ino == ino and not a.loss and str(a) for a in plan), plan
    assert image.read_bytes() == content
    assert segnofs.repair(image) == plan
    assert segnofs.check_replayed(image).clean and segnofs.repair(image) == []
    with segnofs.Volume(image) as whole:
        assert whole.stat("/d").st_nlink == 2


def test_what_is_not_f2fs_is_neither_checked_nor_repaired(tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"text\n" * 4000000)
    for call in (segnofs.check, segnofs.check_replayed, segnofs.plan_repair, segnofs.repair, segnofs.replay):
        with pytest.raises(segnofs.CorruptError, match="not an F2FS volume"):
            call(other)
