# tries: The fix, and a class that defines equality and hash correctly.
git apply
cat >> "$SOURCE" <<'EOF'


class Interval:
    """Two ends."""

    def __init__(self, first, last):
        self.first, self.last = first, last

    def __eq__(self, other):
        if not isinstance(other, Interval):
            return NotImplemented
        return (self.first, self.last) == (other.first, other.last)

    def __hash__(self):
        return hash((self.first, self.last))
EOF
