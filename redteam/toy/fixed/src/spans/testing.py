"""Assertions for tests."""


def assert_in_order(spans):
    assert list(spans) == sorted(spans)
