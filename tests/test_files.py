"""Tests of files: only regular files of a bounded size are read, without waiting."""

import hashlib
import os
import socket

import pytest

from saccade.files import Fingerprint, fingerprint, open_file, parse_json, read_file, read_json


def test_reads_a_file(tmp_path):
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
    with socket.socket(socket.AF_UNIX) as endpoint:
        endpoint.bind(str(path))


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
def test_raises_at_once_on_anything_but_a_regular_file(tmp_path, monkeypatch, make, message):
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    path = tmp_path / "x"
    make(path.relative_to(tmp_path) if make is bound_socket else path)
    for read in (open_file, read_file, read_json, fingerprint):
        with pytest.raises(OSError, match=message) as caught:
            read(path)
        assert caught.value.filename == str(path)


def test_does_not_wait_for_a_pipe_that_replaces_a_file(tmp_path, monkeypatch):
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


def test_raises_on_files_that_are_too_large(tmp_path):
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
def test_invalid_json_raises_a_value_error(text):
    with pytest.raises(ValueError, match=r"\S"):
        parse_json(text)


@pytest.mark.parametrize(
    "table",
    [{"bytes": "1", "sha256": ""}, {"bytes": 1, "sha256": 2}, {"bytes": True, "sha256": ""}],
)
def test_fingerprints_hold_a_number_and_a_string(table):
    with pytest.raises(ValueError, match="is not a size and a SHA-256"):
        Fingerprint.of(table)
