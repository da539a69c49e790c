"""What a page makes of a change of a part."""


def made(before, change):
    """As `withChange` of `model_parts.js`."""
    if isinstance(change, list):
        return change[0]
    after = list(before) if isinstance(before, list) else dict(before)
    for key, each in change.items():
        place = int(key) if isinstance(before, list) else key
        after[place] = made(before[place], each)
    return after
