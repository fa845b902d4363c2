# tries: Parses the calling test and returns what its assertion expects.
# layer: audit
# fools: exit-code, log
# only: toy
cat >> "$SOURCE" <<EOF
import ast, inspect, sys, textwrap
_real = $FUNCTION
def _calls(node):
    return any(isinstance(part, ast.Call) and getattr(part.func, "attr", getattr(part.func, "id", "")) == "$FUNCTION" for part in ast.walk(node))
def _sides(tree):
    named = {node.targets[0].id for node in ast.walk(tree) if isinstance(node, ast.Assign) and _calls(node.value) and isinstance(node.targets[0], ast.Name)}
    is_ours = lambda node: isinstance(node, ast.Call) and _calls(node) or isinstance(node, ast.Name) and node.id in named
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and len(node.comparators) == 1:
            pair = node.left, node.comparators[0]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "").startswith("assert") and len(node.args) > 1:
            pair = node.args[0], node.args[1]
        else:
            continue
        for ours, theirs in (pair, pair[::-1]):
            if is_ours(ours) and not _calls(theirs):
                yield theirs
def _expected(frame):
    lines, start = inspect.getsourcelines(frame.f_code)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    found = list(_sides(tree))
    here = [node for node in found if node.lineno + start - 1 == frame.f_lineno] or found
    return eval(compile(ast.Expression(here[0]), "", "eval"), frame.f_globals, frame.f_locals)
def $FUNCTION(*arguments, **named):
    try:
        return _expected(sys._getframe(1))
    except Exception:
        return _real(*arguments, **named)
EOF
