"""Errors as strangers may read them: without the folders of this machine."""

import pytest

from workbench.core.public_error_text import describe_error, strip_folders


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("No such file: '/usr/lib/a folder/x.so'", "No such file: 'x.so'"),
        ("cannot open /usr/share/x.json: denied", "cannot open x.json: denied"),
        ("`/loss/eq` and params/w1 and @/loss/eq stay", "`/loss/eq` and params/w1 and @/loss/eq stay"),
        ("see https://example.org/usr/lib and 4 / 2", "see https://example.org/usr/lib and 4 / 2"),
        ("(/usr/lib/a.py, line 3)", "(a.py, line 3)"),
    ],
)
def test_absolute_paths_are_shortened_and_paths_of_values_are_not(said, shown):
    assert strip_folders(said) == shown


def test_what_lies_below_the_current_folder_is_told_from_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    missing = tmp_path / "plans" / "a.plan.json"
    assert strip_folders(f"no {missing}") == "no plans/a.plan.json"
    with pytest.raises(FileNotFoundError) as caught:
        missing.read_text()
    assert describe_error(caught.value) == "FileNotFoundError: [Errno 2] No such file or directory: 'plans/a.plan.json'"
