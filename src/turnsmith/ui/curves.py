"""curves"""

from turnsmith.runs import RunFolder


def draw_curves(folder: RunFolder) -> None: ...
