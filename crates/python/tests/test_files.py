"""File objects behave as those of the host, which the same operations are compared with."""

import io
import os
import random
import sys
import threading

import pytest

import segnofs

MODES = ["r", "r+", "w", "w+", "a", "a+", "x", "x+"]


@pytest.fixture
def pair(volume, tmp_path):
    """Opens the same name on the volume and on the host."""

    def open_both(name, mode, **kw):
        return volume.open("/" + name, mode, **kw), open(tmp_path / name, mode, **kw)

    return open_both


def outcome(call):
    try:
        return call()
    except (OSError, ValueError) as e:
        return type(e), getattr(e, "errno", None)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("buffering", [0, 16, -1])
def test_modes_are_those_of_open(volume, tmp_path, mode, exists, buffering):
    if exists:
        volume.write_bytes("/f", b"before\n" * 5)
        (tmp_path / "f").write_bytes(b"before\n" * 5)

    def session(opener, path):
        with opener(path, mode + "b", buffering=buffering) as f:
            steps = [
                f.tell(),
                f.readable(),
                f.writable(),
                f.seekable(),
                outcome(lambda: f.read(4)),
                outcome(lambda: f.write(b"written")),
                outcome(f.flush),
                f.tell(),
                f.seek(2),
                outcome(lambda: f.read()),
                outcome(lambda: f.truncate(12)),
                f.seek(-3, os.SEEK_END),
                outcome(lambda: f.seek(-1)),
                outcome(lambda: f.write(b"end")),
            ]
        return steps, outcome(f.tell)

    ours, theirs = outcome(lambda: session(volume.open, "/f")), outcome(lambda: session(open, tmp_path / "f"))
    assert ours == theirs
    if (tmp_path / "f").exists():
        assert volume.read_bytes("/f") == (tmp_path / "f").read_bytes()
    else:
        assert not volume.exists("/f")


@pytest.mark.parametrize("seed", range(4))
def test_random_access_equals_the_host(pair, seed):
    rng = random.Random(seed)
    ours, theirs = pair("f", "w+b", buffering=rng.choice([0, 100, -1]))
    with ours, theirs:
        for step in range(300):
            action, at, n = rng.randrange(6), rng.randrange(300_000), rng.randrange(20_000)
            data = rng.randbytes(n)
            for f in (ours, theirs):
                f.seek(at)
            buffers = bytearray(n), bytearray(n)
            did = [
                (
                    lambda: f.read(n),
                    lambda: f.write(data),
                    lambda: f.readinto(buffer),
                    lambda: f.truncate(at),
                    lambda: f.seek(-min(at, n), os.SEEK_CUR),
                    lambda: (f.flush(), f.read()),
                )[action]()
                for f, buffer in zip((ours, theirs), buffers)
            ]
            assert did[0] == did[1] and buffers[0] == buffers[1], f"seed {seed}, step {step}"
            assert ours.tell() == theirs.tell(), f"seed {seed}, step {step}"


def test_text(volume):
    with volume.open("/t", "w", encoding="utf-8") as f:
        print("grüße", "two", sep="\n", file=f)
    with volume.open("/t", encoding="utf-8") as f:
        assert list(f) == ["grüße\n", "two\n"]
    assert volume.read_text("/t", "utf-8") == "grüße\ntwo\n"
    volume.write_text("/t", "short", "utf-8")
    assert volume.read_bytes("/t") == b"short"


@pytest.mark.parametrize("mode", ["", "b", "rw", "rbt", "rr", "z", "r+a"])
def test_impossible_modes(volume, mode):
    with pytest.raises(ValueError):
        volume.open("/f", mode)


def test_holes(volume):
    with volume.open("/h", "w+b", buffering=0) as f:
        f.seek(1 << 20)
        f.write(b"data")
        f.truncate(4 << 20)
        assert f.seek(0, os.SEEK_DATA) == 1 << 20
        assert f.seek(1 << 20, os.SEEK_HOLE) == (1 << 20) + 4096
        with pytest.raises(OSError) as e:
            f.seek(3 << 20, os.SEEK_DATA)
        assert e.value.errno == 6
        assert f.pread_into(memoryview(bytearray(8))[2:6], 1 << 20) == 4
        assert f.pwrite(b"!", 0) == 1 and f.read_at(0, 2) == b"!\0"
        f.fsync()
        f.fdatasync()
        assert f.stat().st_size == 4 << 20
    with pytest.raises(ValueError):
        f.read(1)


def test_buffers(volume):
    volume.write_bytes("/f", bytes(range(100)))
    with volume.open("/f", "r+b", buffering=0) as f:
        with pytest.raises(BufferError):
            f.readinto(b"cannot be written")
        with pytest.raises(BufferError):
            f.readinto(memoryview(bytearray(10))[::2])
        assert f.readinto(bytearray()) == 0
        assert f.write(b"") == 0
        with pytest.raises(TypeError):
            f.write("text")


def test_closing_the_volume_writes_what_is_buffered(image):
    volume = segnofs.Volume(image, writable=True)
    file = volume.open("/f", "wb")
    file.write(b"buffered")
    volume.close()
    volume.close()
    assert file.closed and volume.closed
    with pytest.raises(ValueError):
        volume.listdir()
    with segnofs.Volume(image) as volume:
        assert volume.read_bytes("/f") == b"buffered"


def test_a_file_keeps_the_volume(image):
    with segnofs.Volume(image, writable=True) as volume:
        volume.write_bytes("/f", b"x" * 10)
    with pytest.warns(ResourceWarning, match="disk.img"), segnofs.Volume(image).open("/f", "rb") as file:
        assert file.read() == b"x" * 10


def test_forgotten_volumes_are_named(image):
    with pytest.warns(ResourceWarning, match="disk.img"):
        segnofs.Volume(image)


def test_threads(volume):
    """Readers and writers at once, and a close in the middle of it."""
    blob = random.Random(7).randbytes(3_000_000)
    volume.write_bytes("/shared", blob)
    wrong = []

    def work(number):
        for i in range(6):
            name = f"/own-{number}-{i}"
            volume.write_bytes(name, blob[: number * 1000 + 1])
            if volume.read_bytes("/shared") != blob or volume.stat(name).st_size != number * 1000 + 1:
                wrong.append(name)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and len(volume.listdir()) == 25


def test_the_interpreter_lock_is_released(volume):
    """A second thread runs while the first is inside of a call."""
    volume.write_bytes("/large", bytes(8 << 20))
    ran, go = [], threading.Event()

    def other():
        go.wait()
        ran.append(None)

    thread = threading.Thread(target=other)
    thread.start()
    buffer = bytearray(8 << 20)
    before = sys.getswitchinterval()
    with volume.open("/large", "rb", buffering=0) as f:
        # From here on threads take turns only where one gives the lock up.
        sys.setswitchinterval(1000)
        try:
            go.set()
            for _ in range(500):
                f.pread_into(buffer, 0)
                if ran:
                    break
            released = bool(ran)
        finally:
            sys.setswitchinterval(before)
            thread.join()
    assert released


def test_a_child_process_is_refused(volume):
    volume.write_bytes("/f", b"parent")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing"
        try:
            volume.listdir()
        except OSError as e:
            said = str(e)
        os.write(write, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert "open it again" in os.read(read, 1000).decode()
    os.close(read)
    os.close(write)
    assert volume.read_bytes("/f") == b"parent"


def test_types(volume):
    with volume.open("/f", "w+b") as buffered, volume.open("/f", "rb", buffering=0) as raw:
        assert isinstance(buffered, io.BufferedRandom) and isinstance(raw, segnofs.RawFile)
        assert buffered.name == "/f" and buffered.mode == "wb+"
        with pytest.raises(io.UnsupportedOperation):
            raw.fileno()
        with pytest.raises(io.UnsupportedOperation):
            raw.write(b"x")
