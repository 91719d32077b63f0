from pathlib import Path

from config.root import Root
from tests.server.doctor.machines import write


def test_what_is_not_there_is_not_known(tmp_path: Path) -> None:
    root = Root(tmp_path / "nowhere")

    assert (root.text("proc/x"), root.number("proc/x"), root.fields("proc/x")) == (None, None, {})
    assert (root.names("proc"), root.has("proc")) == ((), False)


def test_a_name_that_no_file_can_have_is_not_there() -> None:
    root = Root()

    assert root.text("a\0b") is None
    assert not root.has("x" * 5000)


def test_the_first_of_equal_names_counts_and_a_line_may_have_no_value(tmp_path: Path) -> None:
    root = write(tmp_path, {"file": "a: 1\nb\na: 2\n"})

    assert root.fields("file") == {"a": "1", "b": ""}


def test_a_number_is_one_or_nothing(tmp_path: Path) -> None:
    root = write(tmp_path, {"number": "12\n", "word": "max\n"})

    assert (root.number("number"), root.number("word")) == (12, None)


def test_a_group_and_those_above_it_never_leave_the_mount() -> None:
    assert list(Root().upwards("sys", "/a/../b")) == ["sys/a/b", "sys/a", "sys"]
