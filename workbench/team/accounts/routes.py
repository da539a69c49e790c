"""The addresses of the pages of accounts."""

from typing import Any

from workbench.team.accounts.external_handlers import HubBeginHandler, HubCallbackHandler, OidcBeginHandler, OidcCallbackHandler
from workbench.team.accounts.handlers import InvitationHandler, LoginHandler, LogoutHandler

_NAME = r"([a-z0-9-]{1,40})"
_SECRET = r"([A-Za-z0-9_-]{1,128})"  # noqa: S105 - the shape of one


def account_routes() -> list[tuple[str, Any]]:
    """For Tornado, without the server's prefix."""
    return [
        (r"/login", LoginHandler),
        (r"/logout", LogoutHandler),
        (rf"/invite/{_SECRET}", InvitationHandler),
        (rf"/login/oidc/{_NAME}", OidcBeginHandler),
        (rf"/login/oidc/{_NAME}/callback", OidcCallbackHandler),
        (r"/login/hub", HubBeginHandler),
        (r"/oauth_callback", HubCallbackHandler),
    ]
