"""The user's gestures as frozen values; `codec` reads them from the page's messages, and `as_message` writes such messages."""
