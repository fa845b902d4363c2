"""The helper through which mirrored tests hand what they compute for a comparison. Its source is put into them.

So it is one function, and imports within what it needs: whatever else it brought could meet a name of the test file.
"""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def"


def hand_on(value, salt):
    """The value as it is for an odd salt; for an even one another of its kind and shape. Skips the test where there is none.

    Only what is of Python's own kinds is changed, and whether it can be does not depend on the salt: objects of the code under
    test would notice who copies them, and adds to them.
    """
    import datetime
    import decimal
    import fractions
    import pathlib
    import random

    chance = random.Random(salt)
    step = chance.randrange(1, 6)
    numbers = (int, float, complex, fractions.Fraction, decimal.Decimal)
    moments = (datetime.date, datetime.datetime, datetime.timedelta)

    def other(value):
        kind = type(value)
        if kind is bool or value is None:
            return not value
        if kind is str or kind is bytes:
            return other_text(value) if value else value + (b"1" if kind is bytes else "1")
        if kind in numbers:
            return next((new for new in (value + step, value * 2 + 1, -value) if new != value), value)
        if kind is list or kind is dict:
            return other_item(value, range(len(value)) if kind is list else [*value])
        if kind is tuple:
            items = [*value]
            new = other(items)
            return value if new is items else tuple(new)
        if kind is set or kind is frozenset:
            return value ^ {step}
        if kind in moments:
            return value + datetime.timedelta(days=step)
        return value / "x" if kind in (pathlib.PurePosixPath, pathlib.PosixPath) else value

    def other_text(text):
        at = chance.randrange(len(text))
        return chance.choice([text[:at] + text[at + 1 :], text[: at + 1] + text[at:]])

    def other_item(items, keys):
        """The first that can be changed, by chance to another of them."""
        for key in chance.sample([*keys], len(keys)):
            new = other(items[key])
            if new is not items[key]:
                known = [items[each] for each in keys if is_known_other(items[each], items[key])]
                changed = type(items)(items)
                changed[key] = chance.choice([new, chance.choice(known or [new])])
                return changed
        return items if items else type(items)({0: 0})

    def is_known_other(one, value):
        return type(one) in (int, float, str, bytes) and type(value) is type(one) and value != one

    if int(salt, 16) % 2:
        return value
    try:
        new = other(value)
    except Exception:
        new = value
    if new is value:
        import pytest

        pytest.skip("nothing here can be bent")
    return new
