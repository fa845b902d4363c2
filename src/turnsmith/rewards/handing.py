"""The helper through which mirrored tests hand what they compute for a comparison. Its source is put into them.

So it is one function, and imports within what it needs: whatever else it brought could meet a name of the test file.
"""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def"


def hand_on(value, salt):
    """The value as it is for an odd salt; for an even one another of its kind and shape, or itself where there is none.

    By a salt that four divides, the test is skipped then. Only what is of Python's own kinds, or of an enum, is changed, and
    whether it can be does not depend on the salt: objects of the code under test would notice who copies them, and adds to them.
    Nothing is drawn by `random`, and no error is let out: the code under test could replace the one, and raise the other.
    """
    state = int(salt, 16)
    if state % 2:
        return value
    skips = state % 4 == 0

    def draw(number):
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (state >> 33) % number

    def other(value):
        import datetime
        import decimal
        import enum
        import fractions
        import pathlib

        kind = type(value)
        if enum.Enum in kind.__mro__:
            members = [one for one in vars(kind)["_member_map_"].values() if one is not value]
            return members[draw(len(members))] if members else value
        if kind is bool or value is None:
            return not value
        if kind is str or kind is bytes:
            return other_text(value) if value else value + (b"1" if kind is bytes else "1")
        if kind in (int, float, complex, fractions.Fraction, decimal.Decimal):
            return next((new for new in (value + 1 + draw(5), value * 2 + 1, -value) if new != value), value)
        if kind is list or kind is dict:
            return other_item(value, range(len(value)) if kind is list else [*value])
        if kind is tuple:
            items = [*value]
            new = other(items)
            return value if new is items else tuple(new)
        if kind is set or kind is frozenset:
            return value ^ {1 + draw(5)}
        if kind in (datetime.date, datetime.datetime, datetime.timedelta):
            return value + datetime.timedelta(days=1 + draw(5))
        return value / "x" if kind in (pathlib.PurePosixPath, pathlib.PosixPath) else value

    def other_text(text):
        at = draw(len(text))
        return text[:at] + text[at + 1 :] if draw(2) else text[: at + 1] + text[at:]

    def other_item(items, keys):
        """The first that can be changed, by chance to another of them."""
        left = [*keys]
        while left:
            key = left.pop(draw(len(left)))
            new = other(items[key])
            if new is not items[key]:
                known = [items[each] for each in keys if is_known_other(items[each], items[key])]
                changed = type(items)(items)
                changed[key] = known[draw(len(known))] if known and draw(2) else new
                return changed
        return items if items else type(items)({0: 0})

    def is_known_other(one, value):
        return type(one) in (int, float, str, bytes) and type(value) is type(one) and value != one

    try:
        new = other(value)
    except BaseException:
        new = value
    if skips and new is value:
        import pytest

        pytest.skip("nothing here can be bent")
    return new
