"""Reading of regular files only, and atomic writing of files and folders."""

import contextlib
import errno
import hashlib
import os
import socket

import pytest

from saccade.errors import DiskFullError, WriteError
from saccade.files import (
    Fingerprint,
    atomic_file,
    atomic_folder,
    clean_up,
    fingerprint,
    open_file,
    parse_json,
    read_file,
    read_json,
    write_file,
)


def test_read_file_json_and_fingerprint(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b'{"a": "\xc3\xa9"}')
    assert read_file(path) == path.read_bytes()
    assert read_json(str(path)) == {"a": "é"}
    assert fingerprint(path) == Fingerprint(11, hashlib.sha256(path.read_bytes()).hexdigest())
    (tmp_path / "link").symlink_to(path)
    assert read_file(tmp_path / "link") == path.read_bytes()


def pipe(path):
    os.mkfifo(path)


def bound_socket(path):
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (pipe, "it is a named pipe, not a regular file"),
        (lambda path: path.mkdir(), "it is a folder, not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "it is a device, not a regular file"),
        (bound_socket, "it is a socket, not a regular file"),
        (lambda path: path.symlink_to("x"), "symbolic links"),
        (lambda path: None, "No such file"),
    ],
)
def test_raises_on_anything_but_a_regular_file(tmp_path, monkeypatch, make, message):
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    path = tmp_path / "x"
    make(path.relative_to(tmp_path) if make is bound_socket else path)
    for read in (open_file, read_file, read_json, fingerprint):
        with pytest.raises(OSError, match=message) as caught:
            read(path)
        assert caught.value.filename == str(path)


def test_raises_on_a_pipe_that_replaces_a_file_without_blocking(tmp_path, monkeypatch):
    """The file is checked again after it is opened."""
    path = tmp_path / "x"
    path.touch()
    regular = os.stat(path)
    path.unlink()
    os.mkfifo(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", lambda *_: regular)
        with pytest.raises(OSError, match="it is a named pipe"):
            open_file(path)


def test_raises_on_a_file_above_the_largest_size(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    assert read_file(path, 5) == b"12345"
    with pytest.raises(OSError, match="it has 5 bytes, at most 4 are read"):
        read_file(path, 4)
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(OSError, match="bytes, at most"):
        read_file(path)


@pytest.mark.parametrize("text", ["", "[" * 200_000, '{"a":' * 200_000, b"\xff", "9" * 5000])
def test_parse_json_raises_value_error_on_any_fault(text):
    with pytest.raises(ValueError, match=r"\S"):
        parse_json(text)


@pytest.mark.parametrize(
    "table",
    [{"bytes": "1", "sha256": ""}, {"bytes": 1, "sha256": 2}, {"bytes": True, "sha256": ""}],
)
def test_raises_on_a_malformed_fingerprint(table):
    with pytest.raises(ValueError, match="is not a size and a SHA-256"):
        Fingerprint.from_json(table)


def test_fingerprint_of_write_file_equals_that_of_the_file(tmp_path):
    path = tmp_path / "x"
    assert write_file(path, [b"ab", memoryview(b"c")]) == fingerprint(path)
    assert path.read_bytes() == b"abc"


def folder_with(path, text):
    with atomic_folder(path) as partial:
        (partial / "inner").mkdir()
        (partial / "inner" / "a").write_text(text)
        (partial / "b").write_text(text)


def file_with(path, text):
    write_file(path, text.encode())


def content(path):
    """The text of a file, or of a folder that `folder_with` wrote."""
    if path.is_file():
        return path.read_text()
    one, two = (path / "inner" / "a").read_text(), (path / "b").read_text()
    assert one == two
    return one


WRITERS = [file_with, folder_with]


@pytest.mark.parametrize("write", WRITERS)
def test_the_new_content_replaces_the_old(tmp_path, write):
    for text in ("old", "new"):
        write(tmp_path / "x", text)
        assert content(tmp_path / "x") == text
        assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("atomic", [atomic_file, atomic_folder])
def test_an_error_in_the_block_keeps_the_old_content(tmp_path, atomic):
    write = file_with if atomic is atomic_file else folder_with
    write(tmp_path / "x", "old")

    def fail(partial):
        (partial if atomic is atomic_file else partial / "b").write_text("half")
        raise KeyError

    with pytest.raises(KeyError), atomic(tmp_path / "x") as partial:
        fail(partial)
    assert content(tmp_path / "x") == "old"
    assert os.listdir(tmp_path) == ["x"]


class Crash(BaseException):
    pass


@pytest.mark.parametrize("fault", [Crash, OSError(errno.ENOSPC, ""), OSError(errno.EIO, "")])
@pytest.mark.parametrize("write", WRITERS)
def test_a_fault_at_any_system_call_leaves_the_old_or_the_new_content(
    tmp_path, monkeypatch, write, fault
):
    number, left = 0, [0]
    while left[0] <= 0:
        number += 1
        left = [number]
        path = tmp_path / str(number) / "x"
        path.parent.mkdir()
        write(path, "old")

        def failing(plain, left=left):
            def call(*args, **options):
                left[0] -= 1
                if left[0] == 0:
                    raise fault
                return plain(*args, **options)

            return call

        with monkeypatch.context() as patch:
            for name in ("mkdir", "fsync", "replace"):
                patch.setattr(os, name, failing(getattr(os, name)))
            with contextlib.suppress(Crash, WriteError):
                write(path, "new")
        clean_up(path.parent)
        assert content(path) in ("old", "new")
        assert os.listdir(path.parent) == ["x"]
    assert content(path) == "new"
    assert number > 3


def test_clean_up_restores_a_folder_that_was_being_replaced(tmp_path):
    (tmp_path / ".waiting-x").mkdir()
    (tmp_path / ".waiting-y").mkdir()
    (tmp_path / "y").mkdir()
    (tmp_path / ".partial-1-x").mkdir()
    (tmp_path / ".partial-1-z").touch()
    clean_up(tmp_path, "x")
    assert sorted(os.listdir(tmp_path)) == [".partial-1-z", ".waiting-y", "x", "y"]
    clean_up(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["x", "y"]


@pytest.mark.parametrize(
    ("number", "kind", "message"),
    [
        (
            errno.ENOSPC,
            DiskFullError,
            "the disk is full: .*x could not be written; all is kept",
        ),
        (errno.EDQUOT, DiskFullError, "the disk is full"),
        (errno.EIO, WriteError, r"x could not be written \(Input/output error\); all is kept"),
    ],
)
def test_errors_of_the_disk_are_explained(tmp_path, number, kind, message):
    with pytest.raises(kind, match=message), atomic_file(tmp_path / "x", "all is kept"):
        raise OSError(number, os.strerror(number))
