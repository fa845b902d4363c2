"""The window on a file: arithmetic and rendering, no state (paper §3.4)."""

from turnsmith.agent.tools.files import TextFile

OVERLAP = 2
"""Lines that two neighbouring windows share."""


def clamp(first_line: int, num_lines: int, window_lines: int) -> int:
    """The nearest first line that keeps the window inside the file."""
    return max(1, min(first_line, num_lines - window_lines + 1))


def line_into_view(line: int, num_lines: int, window_lines: int) -> int:
    """First line of the window that shows `line` about one sixth down."""
    return clamp(line - window_lines // 6, num_lines, window_lines)


def scrolled(first_line: int, direction: int, num_lines: int, window_lines: int) -> int:
    """First line after one window down (direction 1) or up (−1)."""
    return clamp(first_line + direction * max(1, window_lines - OVERLAP), num_lines, window_lines)


def render_window(file: TextFile, first_line: int, window_lines: int) -> str:
    """The header, the numbered lines, and how many lines are above and below."""
    lines = file.lines
    first_line = clamp(first_line, len(lines), window_lines)
    last_line = min(first_line + window_lines - 1, len(lines))
    rows = [f"[File: {file.path} ({len(lines)} lines total)]"]
    if first_line > 1:
        rows.append(f"({first_line - 1} more lines above)")
    rows.extend(number_line(number, lines[number - 1]) for number in range(first_line, last_line + 1))
    if last_line < len(lines):
        rows.append(f"({len(lines) - last_line} more lines below)")
    return "\n".join(rows)


def number_line(number: int, line: str) -> str:
    """`N:content`, without a carriage return at the end."""
    return f"{number}:" + line.removesuffix("\r")
