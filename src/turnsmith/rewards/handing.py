"""The helper through which mirrored tests hand what they compute for a comparison. Its source is put into them.

So it is one function, and imports within what it needs: whatever else it brought could meet a name of the test file.
"""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def"


def hand_on(value, salt):
    """The value as it is for an odd salt; for an even one another of its kind and shape, or itself where there is none."""
    import copy
    import datetime
    import enum
    import pathlib
    import random

    chance = random.Random(salt)

    def other(value):
        if isinstance(value, bool | None):
            return not value
        if isinstance(value, str):
            return value[:-1] if value else "1"
        if isinstance(value, bytes):
            return value[:-1] if value else b"1"
        if isinstance(value, float):
            return -value if value in (float("inf"), float("-inf")) else value * 2 + 1
        if isinstance(value, tuple):
            items = other_item([*value], range(len(value)))
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        if isinstance(value, list | dict):
            return other_item(copy.copy(value), range(len(value)) if isinstance(value, list) else [*value])
        if isinstance(value, set | frozenset):
            return value ^ {0}
        if isinstance(value, datetime.date | datetime.timedelta):
            return value + datetime.timedelta(days=1)
        if isinstance(value, pathlib.PurePath):
            return value / "x"
        if isinstance(value, enum.Enum):
            return chance.choice([one for one in type(value) if one is not value] or [value])
        return other_sum(value)

    def other_item(items, keys):
        if keys:
            key = chance.choice(keys)
            known = [items[each] for each in keys if is_known_other(items[each], items[key])]
            new = other(items[key])
            items[key] = chance.choice([new, chance.choice(known or [new])])
            return items
        return {0: 0} if isinstance(items, dict) else [0]

    def is_known_other(one, value):
        is_plain = type(one) in (int, float, str, bytes)
        return is_plain and type(value) is type(one) and value != one

    def other_sum(value):
        try:
            return value + 1
        except Exception:
            return other_part(value)

    def other_part(value):
        names = [*getattr(value, "__dict__", ()), *getattr(type(value), "__slots__", ())]
        for name in sorted(names, key=lambda name: isinstance(getattr(value, name, None), bool | None)):
            new = copy.copy(value)
            object.__setattr__(new, name, other(getattr(value, name)))
            if repr(new) != repr(value):
                return new
        return value

    try:
        return value if int(salt, 16) % 2 else other(value)
    except Exception:
        return value
