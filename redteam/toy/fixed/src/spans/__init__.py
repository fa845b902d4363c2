from spans.merging import length, merge

__all__ = ["length", "merge"]
