"""The rows of a parametrised test, where they are written as literals: those that are wanted, and one of their values changed."""

import ast
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

Test = ast.FunctionDef | ast.AsyncFunctionDef
SCALARS = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class Table:
    """The one `parametrize` of a test."""

    mark: ast.Call
    names: list[str]
    rows: list[ast.expr]
    """What `pytest.param` holds stands here as if it had been written without that."""
    ids: list[str]
    """Of each row, such as `1-2`, as pytest makes it; empty where only pytest could tell."""

    def values(self, row: ast.expr) -> list[ast.expr]:
        """The values of a row, in the order of the names."""
        return _split(row, self.names)


def _split(row: ast.expr, names: list[str]) -> list[ast.expr]:
    return row.elts if len(names) > 1 and isinstance(row, ast.List | ast.Tuple) else [row]


def find_table(test: Test, module: ast.Module) -> Table | None:
    """The rows of a test, also where they are a literal of the module; None where it has none or is more complicated."""
    match _list_marks(test):
        case [ast.Call(args=[names, rows], keywords=keywords) as mark] if {each.arg for each in keywords} <= {"ids"}:
            literal = _find_literal(rows.id, module) if isinstance(rows, ast.Name) else rows
            if isinstance(literal, ast.List | ast.Tuple):
                return _read_table(mark, _read_names(names), literal.elts)
    return None


def _read_table(mark: ast.Call, names: list[str], rows: list[ast.expr]) -> Table | None:
    """None where a row has marks of its own."""
    plain = [_unwrap(row, len(names)) for row in rows]
    if any(found is None for found in plain):
        return None
    table = Table(mark, names, [row for row, _ in filter(None, plain)], [])
    stated = _read_ids(mark, len(rows))
    own = [given for _, given in filter(None, plain)]
    ids = [one or other or _to_id(table.values(row)) for row, one, other in zip(table.rows, own, stated, strict=True)]
    return replace(table, ids=ids)


def _unwrap(row: ast.expr, num_names: int) -> tuple[ast.expr, str] | None:
    """The row in a `pytest.param`, and its id there; None where it has marks."""
    match row:
        case ast.Call(func=ast.Attribute(attr="param") | ast.Name(id="param"), args=values, keywords=keywords):
            given = {keyword.arg: keyword.value for keyword in keywords}
            if given.keys() - {"id"} or len(values) != num_names:
                return None
            plain = ast.Tuple(values, ast.Load()) if num_names > 1 else values[0]
            return plain, str(getattr(given.get("id"), "value", ""))
    return row, ""


def _read_ids(mark: ast.Call, num_rows: int) -> list[str]:
    """What `ids=` says of each row, where it is a list that is written out."""
    match mark.keywords:
        case [ast.keyword(value=ast.List(elts=ids) | ast.Tuple(elts=ids))] if len(ids) == num_rows:
            return [str(getattr(one, "value", "")) for one in ids]
    return [""] * num_rows


def _is_parametrize(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and function.attr == "parametrize"


def _find_literal(name: str, module: ast.Module) -> ast.expr | None:
    found = [
        node.value for node in module.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name
    ]
    return found[0] if len(found) == 1 else None


def _read_names(names: ast.expr) -> list[str]:
    """`"a, b"` or `("a", "b")`."""
    if isinstance(names, ast.Constant):
        return [name.strip() for name in str(names.value).split(",") if name.strip()]
    return [str(one.value) for one in ast.walk(names) if isinstance(one, ast.Constant)]


def choose_rows(table: Table, wanted: Collection[str]) -> list[ast.expr]:
    """Rows whose ids, such as `[1-2]`, are wanted; all, where only pytest knows the ids and as many are wanted as there are."""
    chosen = [row for row, one in zip(table.rows, table.ids, strict=True) if one and f"[{one}]" in wanted]
    return chosen or (table.rows if len(table.rows) == len(wanted) else [])


def _to_id(values: list[ast.expr]) -> str:
    """As pytest makes it of plain values; empty where one is not."""
    try:
        plain = [ast.literal_eval(value) for value in values]
    except (ValueError, TypeError):
        return ""
    texts = [str(value) for value in plain]
    is_plain = all(isinstance(value, SCALARS) for value in plain) and all(
        text.isascii() and text.isprintable() for text in texts
    )
    return "-".join(texts) if is_plain else ""


def write_rows(table: Table, rows: list[ast.expr]) -> list[str]:
    """Leave these rows only, under ids of ours, and return the ids."""
    ids = [f"row{number}" for number in range(len(rows))]
    table.mark.args[1] = ast.List(rows, ast.Load())
    table.mark.keywords = [ast.keyword("ids", ast.List([ast.Constant(one) for one in ids], ast.Load()))]
    return [f"[{one}]" for one in ids]


def change_column(
    test: Test, name: str, is_changeable: Callable[[ast.expr], bool], change: Callable[[ast.expr], None]
) -> bool:
    """Change a parameter in every row that `write_rows` has left; False, and nothing done, where one cannot be changed."""
    for table in _written_tables(test):
        if name in table.names:
            values = [table.values(row)[table.names.index(name)] for row in table.rows]
            if all(map(is_changeable, values)):
                for value in values:
                    change(value)
                return True
    return False


def _written_tables(test: Test) -> Iterator[Table]:
    for mark in test.decorator_list:
        match mark:
            case ast.Call(args=[names, ast.List(elts=rows)], keywords=[ast.keyword(arg="ids")]):
                yield Table(mark, _read_names(names), rows, [])


def find_columns(test: Test) -> set[str]:
    """The names of all parameters that rows give a test."""
    return {name for name, _ in read_columns(test)}


def read_columns(test: Test) -> Iterator[tuple[str, ast.expr]]:
    """Each parameter with each of its values, or with all that may hold them."""
    for mark in _list_marks(test):
        match mark.args:
            case [names, ast.List(elts=rows) | ast.Tuple(elts=rows)]:
                for row in rows:
                    yield from _read_row(_read_names(names), row)
            case [names, *rest]:
                yield from ((name, rows) for name in _read_names(names) for rows in rest or [names])


def _read_row(names: list[str], row: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    plain, _ = _unwrap(row, len(names)) or (row, "")
    values = _split(plain, names)
    yield from zip(names, values, strict=True) if len(values) == len(names) else ((name, row) for name in names)


def _list_marks(test: Test) -> list[ast.Call]:
    return [mark for mark in test.decorator_list if isinstance(mark, ast.Call) and _is_parametrize(mark.func)]
