"""Files of a run: what is read within limits, and what is written to."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cursus._files import end_of_lines, make_folder, misfit, open_regular, open_to_write, parse, read_lines, read_regular
from cursus.errors import LedgerError

LONGEST = 1 << 26


@pytest.mark.parametrize(
    ("value", "shape", "complaint"),
    [
        ({"step": 1}, {"step": int}, None),
        ({"step": 1, "more": "x"}, {"step": int}, None),
        ({"step": 1, "loss": None, "win": 0.5}, {"step": int, str: float | None}, None),
        ({"step": 1, "loss": "x"}, {"step": int, str: float | None}, "loss must be a number or null, got 'x'"),
        ({}, {"step": int}, "it lacks step"),
        ([], {"step": int}, "it must be an object, got []"),
        ({"step": True}, {"step": int}, "step must be an integer, got True"),
        ({"step": 1 << 64}, {"step": int}, "step must be an integer, got 18446744073709551616"),
        ({"time": 3}, {"time": float}, None),
        ({"rows": [[1], 2]}, {"rows": [[int]]}, "rows[1] must be a list, got 2"),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": str}}}, "a.b.c must be a string, got 1"),
    ],
)
def test_what_does_not_have_its_shape_is_told(value: Any, shape: Any, complaint: str | None) -> None:
    assert misfit(value, shape) == complaint


@pytest.mark.parametrize("text", [b"[" * 65 + b"]" * 65, b"[" * 10**5, b"9" * 30, b"\xff", b"", b"{"])
def test_what_is_nested_too_deeply_too_large_or_damaged_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 – any
        parse(text)


def test_what_is_nested_as_anything_may_be_is_read() -> None:
    text = json.dumps({"seed": (1 << 64) - 1, "a": [[[{"b": [1.5, None, True, "x"]}]]]})
    assert parse(text.encode()) == json.loads(text)


def test_lines_are_read_up_to_one_that_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo\nthr")
    with open_regular(path) as file:
        assert list(read_lines(file)) == [b"one\n", b"two\n"]
        assert end_of_lines(file.fileno()) == 8


@pytest.mark.parametrize("content", [b"", b"torn", b"x" * 100_000, b"whole\n", b"a\n" + b"x" * 200_000])
def test_the_end_of_the_lines_is_behind_the_last_newline(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lines"
    path.write_bytes(content)
    with open_regular(path) as file:
        assert end_of_lines(file.fileno()) == content.rfind(b"\n") + 1


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\n")
    os.truncate(path, 1 << 40)
    with open_regular(path) as file:
        with pytest.raises(ValueError, match="line of more than"):
            list(read_lines(file))
        with pytest.raises(ValueError, match="line of more than"):
            end_of_lines(file.fileno())
    with pytest.raises(OSError, match="more than 100 bytes"):
        read_regular(path, 100)


def test_what_is_no_regular_file_is_neither_read_nor_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null"), tmp_path):
        with pytest.raises(OSError, match="regular file"):
            open_regular(path)
        with pytest.raises(LedgerError, match="cannot be opened for writing"):
            open_to_write(path, os.O_RDWR)


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "folder link").symlink_to(tmp_path)
    with pytest.raises(LedgerError, match="it is a link"):
        open_to_write(tmp_path / "link", os.O_RDWR)
    with pytest.raises(LedgerError, match="it is a link"):
        make_folder(tmp_path / "folder link")
    (tmp_path / "second").hardlink_to(tmp_path / "file")
    with pytest.raises(LedgerError, match="hard link"):
        open_to_write(tmp_path / "file", os.O_RDWR)


def test_a_folder_is_made_for_its_owner(tmp_path: Path) -> None:
    assert make_folder(tmp_path / "weights") == make_folder(tmp_path / "weights")
    assert (tmp_path / "weights").stat().st_mode & 0o077 == 0
    with pytest.raises(LedgerError, match="File exists"):
        (tmp_path / "file").write_text("")
        make_folder(tmp_path / "file")
