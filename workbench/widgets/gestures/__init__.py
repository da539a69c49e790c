"""What a hand can do, as frozen values; `codec` reads and `as_message` writes them as the page sends them."""
