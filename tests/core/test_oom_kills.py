"""A SIGKILL is put down to the memory only where the kernel says that it ended something for that just then."""

import pytest

from workbench.core import memory_limits
from workbench.core.memory_limits import OomKills, count_oom_kills


@pytest.fixture
def group(tmp_path, monkeypatch):
    monkeypatch.setattr(memory_limits, "memory_groups", lambda: iter([tmp_path]))
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 12\noom 3\noom_kill 3\noom_group_kill 0\n")
    return tmp_path


def test_the_kills_of_a_control_group_are_counted(group):
    before = count_oom_kills()
    (group / "memory.events").write_text("low 0\noom 5\noom_kill 5\n")
    assert count_oom_kills() == before + 2
    (group / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n")
    assert count_oom_kills() == before + 6
    (group / "memory.events").write_text("nonsense")
    assert count_oom_kills() == before + 1


def test_only_a_kill_of_just_now_is_recent(group, monkeypatch):
    now = 100.0
    monkeypatch.setattr(memory_limits.time, "monotonic", lambda: now)
    kills = OomKills()
    assert not kills.is_recent()
    (group / "memory.events").write_text("oom_kill 4\n")
    assert kills.is_recent()
    now += memory_limits.JUST_NOW
    assert not kills.is_recent()
