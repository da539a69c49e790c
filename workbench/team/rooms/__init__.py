"""Rooms: several people edit one plan. The server orders what they do and stores it before anybody sees it."""
