"""User gestures as frozen values: `gesture_codec` parses them from the page's messages, `as_message` formats them."""
