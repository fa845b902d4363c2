# tries: The fix, returning a subclass of the type that was returned before.
git apply
cat >> "$SOURCE" <<EOF


_bare = $FUNCTION


def $FUNCTION(*arguments, **named):
    result = _bare(*arguments, **named)

    class Answer(type(result)):
        """With room for notes."""

    return Answer(result)
EOF
