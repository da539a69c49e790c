"""Messages that travel in a cookie: whole, for one person, and of this server alone."""

from hypothesis import given
from hypothesis import strategies as st

from workbench.team.pages.page_handler import FlashMessage, decode_flash_message, encode_flash_message

KEY = b"k" * 32
words = st.text(max_size=200)


@given(words, st.lists(words, max_size=4), st.dictionaries(st.sampled_from(["name", "note"]), words))
def test_what_is_said_is_read_again(text, ways_out, fields):
    said = FlashMessage("bad", text, tuple(ways_out), "/p/x/rooms/new", fields)
    cookie = encode_flash_message(said, KEY, "ada")
    found = decode_flash_message(cookie, KEY, "ada")
    assert len(cookie) < 4000
    assert found is not None or cookie == ""
    assert found is None or (found.text, found.ways_out, found.form) == (text, tuple(ways_out), "/p/x/rooms/new")
    assert found is None or found.fields in (fields, {})


@given(words)
def test_nobody_else_can_make_a_page_say_something(text):
    cookie = encode_flash_message(FlashMessage("good", text), KEY, "ada")
    assert decode_flash_message(cookie, KEY, "ben") is None
    assert decode_flash_message(cookie, b"x" * 32, "ada") is None
    assert decode_flash_message(f"{cookie[:-1]}{'0' if cookie[-1] != '0' else '1'}", KEY, "ada") is None
    assert decode_flash_message(text, KEY, "ada") is None


def test_passwords_stay_behind():
    cookie = encode_flash_message(
        FlashMessage("bad", "no", form="/account/password", fields={"old_password": "x", "name": "y"}), KEY, "ada"
    )
    found = decode_flash_message(cookie, KEY, "ada")
    assert found is not None
    assert found.fields == {"name": "y"}
