"""Who is in a room, and what each has before their eyes: published soon after a change, and not with every one."""

from types import SimpleNamespace

import pytest

from workbench.team.rooms import presence
from workbench.team.rooms.presence import (
    COLOURS,
    GONE_AFTER,
    HELD_FOR,
    MOST_SAID,
    PresentPerson,
    RoomPresence,
    gestures_to_follow,
    held_dimension,
    leader_for,
)


class Timers:
    """Timers that ring when the test says so."""

    def __init__(self):
        self.waiting = []

    def Timer(self, seconds, work):
        timer = SimpleNamespace(seconds=seconds, work=work, start=lambda: self.waiting.append(timer))
        return timer

    def ring(self):
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each.work()


@pytest.fixture
def clock(monkeypatch):
    """The seconds that the module reads."""
    held = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(presence, "time", SimpleNamespace(monotonic=lambda: held.now, time=lambda: 1.7e9 + held.now))
    return held


@pytest.fixture
def timers(monkeypatch):
    held = Timers()
    monkeypatch.setattr(presence, "threading", SimpleNamespace(Timer=held.Timer, Lock=presence.threading.Lock))
    return held


@pytest.fixture
def published():
    return []


@pytest.fixture
def room(clock, timers, published):
    made = RoomPresence(lambda: published.append(made.state()))
    return made


def names(state):
    return [each["display"] for each in state["people"]]


def test_many_changes_are_published_once_with_the_last_state(room, timers, published):
    room.enter(1, "a", "Ada", "owner")
    for number in range(100):
        room.update(1, tab=f"tab {number}")
    assert published == []
    assert [each.seconds for each in timers.waiting] == [presence.LEAST_PAUSE]
    timers.ring()
    assert [each["people"][0]["tab"] for each in published] == ["tab 99"]
    timers.ring()
    assert len(published) == 1
    room.update(1, tab="memory")
    timers.ring()
    assert len(published) == 2


def test_what_changes_nothing_is_not_published(room, timers, published):
    room.enter(1, "a", "Ada", "owner")
    timers.ring()
    assert room.update(1, tab="") is None
    assert room.update(7, tab="memory") is None, "somebody who has left"
    room.hold(1, "")
    room.touch(1)
    assert timers.waiting == []


def test_what_is_published_while_something_changes_is_published_again(room, timers, published):
    """A change that comes as the state is sent is not swallowed."""
    room.enter(1, "a", "Ada", "owner")
    room._publish = lambda: (published.append(room.state()), len(published) == 1 and room.update(1, tab="memory"))
    timers.ring()
    assert len(timers.waiting) == 1
    timers.ring()
    assert [each["people"][0]["tab"] for each in published] == ["", "memory"]


def test_a_person_has_one_colour_on_all_pages_and_after_coming_back(room):
    first, second, other = (room.enter(number, user, user, "editor").colour for number, user in ((1, "a"), (2, "a"), (3, "b")))
    assert (first, second, other) == (COLOURS[0], COLOURS[0], COLOURS[1])
    room.leave(1)
    room.leave(2)
    assert room.enter(4, "a", "a", "editor").colour == COLOURS[0]
    many = [room.enter(10 + number, f"u{number}", "x", "editor").colour for number in range(len(COLOURS))]
    assert set(many) == set(COLOURS)


@pytest.mark.parametrize("colour", COLOURS)
def test_white_text_can_be_read_on_every_colour(colour):
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
    luminance = sum(weight * each for weight, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    assert 1.05 / (luminance + 0.05) >= 4.5


def test_who_gives_no_sign_is_away_and_back_with_the_next(room, clock, timers, published):
    room.enter(1, "a", "Ada", "owner")
    timers.ring()
    clock.now += GONE_AFTER
    assert not room.state()["people"][0]["away"]
    clock.now += 0.1
    assert room.state()["people"][0]["away"]
    room.touch(1)
    timers.ring()
    assert not published[-1]["people"][0]["away"]
    room.touch(7)


def test_going_away_is_published_without_anybody_doing_anything(room, clock, timers, published):
    room.enter(1, "a", "Ada", "owner")
    room.enter(2, "b", "Bob", "editor")
    timers.ring()
    clock.now += GONE_AFTER + 0.1
    room.touch(2)
    room.note_time()
    timers.ring()
    assert [each["away"] for each in published[-1]["people"]] == [True, False]
    room.note_time()
    assert timers.waiting == [], "once"


def test_a_hand_that_was_not_heard_of_again_holds_nothing(room, clock):
    room.enter(1, "a", "Ada", "owner")
    room.hold(1, "hidden")
    clock.now += HELD_FOR
    room.note_time()
    assert room.person(1).hand == "hidden"
    clock.now += 0.1
    room.note_time()
    assert room.person(1).hand == ""
    room.hold(1, "io")
    room.hold(1, "")
    assert room.person(1).hand == ""


def test_what_was_done_last_stands_first_and_the_oldest_is_forgotten(room, clock):
    room.enter(1, "a", "Ada", "owner")
    for number in range(MOST_SAID + 2):
        room.say("a", f"edit {number}")
    room.say("nobody", "edit by somebody who left")
    said = room.state()["said"]
    assert len(said) == MOST_SAID
    assert said[0] == {"who": "Ada", "colour": COLOURS[0], "text": f"edit {MOST_SAID + 1}", "at": 1.7e9 + clock.now}


def test_who_followed_somebody_that_leaves_follows_nobody(room):
    for number, user in ((1, "a"), (2, "b")):
        room.enter(number, user, user, "editor")
    room.update(2, following=1)
    room.leave(1)
    assert room.person(2).following == 0
    assert room.person(1) is None


@pytest.mark.parametrize(
    ("gesture", "held"),
    [
        ({"ahead": True, "verb": "drop", "dim": "hidden"}, "hidden"),
        ({"verb": "drop", "dim": "hidden"}, ""),
        ({"ahead": True, "verb": "own"}, ""),
        ({"ahead": True, "dim": ["hidden"]}, ""),
        ({"ahead": True, "dim": "x" * 500}, "x" * 80),
        ({}, ""),
    ],
)
def test_a_hand_over_a_zone_holds_a_dimension(gesture, held):
    assert held_dimension(gesture) == held


def people(room, count):
    for number in range(1, count + 1):
        room.enter(number, f"u{number}", f"P{number}", "editor")


def test_nobody_follows_themselves_or_whoever_is_not_there(room):
    people(room, 2)
    for leader in (1, 3, 0, -1, None, "2", [2], True, 2.0, {"a": 1}):
        assert leader_for(room, 1, leader) == 0
    assert leader_for(room, 1, 2) == 2


def test_following_makes_no_circle(room):
    people(room, 4)
    room.update(2, following=1)
    room.update(3, following=2)
    assert leader_for(room, 1, 3) == 0
    assert leader_for(room, 1, 2) == 0
    assert leader_for(room, 4, 3) == 3
    assert leader_for(room, 3, 1) == 1
    room.update(1, following=4)
    room.update(4, following=1)  # as it should not be: the search ends all the same
    assert leader_for(room, 3, 4) == 4


def seen(**fields):
    return PresentPerson(1, "u", "P", "editor", "#000000", **fields)


def test_a_follower_opens_and_selects_what_the_leader_sees():
    mine, theirs = seen(tab="tensors"), seen(tab="memory", selected="w")
    assert gestures_to_follow(mine, theirs) == [{"verb": "open", "tab": "memory"}, {"verb": "select", "path": "w"}]
    assert gestures_to_follow(theirs, theirs) == []
    assert gestures_to_follow(seen(tab="memory", selected="v"), seen(tab="memory")) == [{"verb": "select", "path": "v"}], "again: none"
    assert gestures_to_follow(mine, seen()) == [], "nothing is known of the leader yet"
