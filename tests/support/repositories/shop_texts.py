"""Module with a bug, its fix, and its visible and hidden tests."""

OLD = '''"""Prices."""


def discount(price, share):
    """The price less a share of it."""
    if share < 0:
        raise ValueError("a negative share")
    return price - price * share


def total(prices, bound):
    """The sum of the prices, at most the bound."""
    result = 0
    for price in prices:
        result += price
    return result
'''
BASE = OLD.replace("price - price * share", "price - share * price")
FIXED = BASE.replace("    return result\n", "    if result > bound:\n        return bound\n    return result\n")
VISIBLE = "from shop import total\n\n\ndef test_small():\n    assert total([1, 2], 9) == 3\n"
HIDDEN = "\n\ndef test_bounded_sum_of_many_prices():\n    prices = [10, 20, 30]\n    assert total(prices, 45) == 45\n"
