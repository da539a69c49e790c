"""The page of a room: the board of one person, as `app.page` serves it, on what the room's process sends."""

import panel as pn

from workbench.app.page.page_template import TITLE, template_of
from workbench.errors import WorkbenchError
from workbench.team.accounts.provider import person_of_session
from workbench.team.rooms.room_hub import GuestPage, RoomHub
from workbench.team.rooms.room_records import principal_of_user
from workbench.team.rooms.room_screen import RoomScreen
from workbench.team.store.store import Store

PATH = "/room/{room}"


def room_page(store: Store, hub: RoomHub, health: str) -> pn.Template:
    """The page that a session of Bokeh shows; the person is the one whom the session's signed token names. After a cut it asks the server's
    `health` by and by, and comes back, to the room or to where one signs in."""
    document = pn.state.curdoc
    screen = RoomScreen(document)
    room_id = pn.state.route_params.get("room", "")
    try:
        principal = principal_of_user(store, person_of_session(document.session_context.token_payload))
        guest = hub.enter(room_id, principal, screen)
    except WorkbenchError as error:
        return template_of(TITLE, None, str(error))
    pn.state.on_session_destroyed(lambda _: _close(screen, guest))
    return template_of(TITLE, screen.root, opens=True, health=health, is_kept=True)


def _close(screen: RoomScreen, guest: GuestPage) -> None:
    screen.leave()
    guest.leave()
