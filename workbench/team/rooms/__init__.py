"""Rooms, in which several users edit one plan. The server orders their edits and stores them before anybody sees them."""
