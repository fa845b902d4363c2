"""Rewrites of one function that keep its behaviour, used as honest variants of gold patches."""

from collections.abc import Callable, Iterator

import libcst as cst
import libcst.matchers as m

Rewrite = Callable[[cst.FunctionDef], cst.FunctionDef]


def rewrite(source: str, function: str) -> Iterator[tuple[str, str]]:
    """Yield the name of each rewrite that changes the function, and the whole rewritten source."""
    module = cst.parse_module(source)
    for name, change in REWRITES.items():
        text = module.visit(_InFunction(function, change)).code
        if text != source:
            yield name, text
    if text := _split(module, function):
        yield "body in a helper", text


class _InFunction(cst.CSTTransformer):
    """Transformer that rewrites every function of one name."""

    def __init__(self, function: str, change: Rewrite) -> None:
        self.function = function
        self.change = change

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:  # noqa: N802
        return self.change(updated_node) if original_node.name.value == self.function else updated_node


def _by(transformer: type[cst.CSTTransformer]) -> Rewrite:
    return lambda function: cst.ensure_type(function.visit(transformer()), cst.FunctionDef)


def _negate(condition: cst.BaseExpression) -> cst.BaseExpression:
    return cst.UnaryOperation(cst.Not(), _enclose(condition))


def _enclose(expression: cst.BaseExpression) -> cst.BaseExpression:
    return expression.with_changes(lpar=[cst.LeftParen(), *expression.lpar], rpar=[*expression.rpar, cst.RightParen()])


class InvertedBranches(cst.CSTTransformer):
    """Rewrite of `if c: a else: b` to `if not (c): b else: a`."""

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.If:  # noqa: N802
        match updated_node.orelse:
            case cst.Else(body=body):
                return updated_node.with_changes(
                    test=_negate(updated_node.test),
                    whitespace_before_test=cst.SimpleWhitespace(" "),
                    body=body,
                    orelse=updated_node.orelse.with_changes(body=updated_node.body),
                )
        return updated_node

    def leave_IfExp(self, original_node: cst.IfExp, updated_node: cst.IfExp) -> cst.IfExp:  # noqa: N802
        return updated_node.with_changes(
            test=_negate(updated_node.test),
            body=_enclose(updated_node.orelse),
            orelse=_enclose(updated_node.body),
            whitespace_before_if=cst.SimpleWhitespace(" "),
            whitespace_after_if=cst.SimpleWhitespace(" "),
            whitespace_before_else=cst.SimpleWhitespace(" "),
            whitespace_after_else=cst.SimpleWhitespace(" "),
        )


class NamedResults(cst.CSTTransformer):
    """Rewrite of `return x` to `result_of_this = x; return result_of_this`."""

    def visit_Lambda(self, node: cst.Lambda) -> bool:  # noqa: N802
        return False

    def leave_SimpleStatementLine(  # noqa: N802
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.SimpleStatementLine]:
        match updated_node.body:
            case [cst.Return(value=cst.BaseExpression() as value)]:
                name = cst.Name("result_of_this")
                assign = cst.Assign([cst.AssignTarget(name)], value)
                return cst.FlattenSentinel(
                    [updated_node.with_changes(body=[assign]), cst.SimpleStatementLine([cst.Return(name)])]
                )
        return updated_node


_MIRRORED: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.Equal: cst.Equal,
    cst.NotEqual: cst.NotEqual,
    cst.LessThan: cst.GreaterThan,
    cst.GreaterThan: cst.LessThan,
    cst.LessThanEqual: cst.GreaterThanEqual,
    cst.GreaterThanEqual: cst.LessThanEqual,
}


class MirroredComparisons(cst.CSTTransformer):
    """Rewrite of `a < b` to `b > a`."""

    def leave_Comparison(self, original_node: cst.Comparison, updated_node: cst.Comparison) -> cst.Comparison:  # noqa: N802
        match updated_node.comparisons:
            case [cst.ComparisonTarget(operator=operator, comparator=right)] if type(operator) in _MIRRORED:
                turned = cst.ComparisonTarget(_MIRRORED[type(operator)](), _enclose(updated_node.left))
                return updated_node.with_changes(left=_enclose(right), comparisons=[turned])
        return updated_node


class NegatedConditions(cst.CSTTransformer):
    """Rewrite of `if a and b` to `if not (not (a) or not (b))`, and of other conditions likewise."""

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.If:  # noqa: N802
        match updated_node.test:
            case cst.BooleanOperation(left=left, operator=operator, right=right):
                other = cst.Or() if isinstance(operator, cst.And) else cst.And()
                inner = cst.BooleanOperation(_negate(left), other, _negate(right))
                spaced = cst.SimpleWhitespace(" ")
                return updated_node.with_changes(test=_negate(inner), whitespace_before_test=spaced)
        return updated_node.with_changes(
            test=_negate(_negate(updated_node.test)), whitespace_before_test=cst.SimpleWhitespace(" ")
        )


class EarlyReturns(cst.CSTTransformer):
    """Rewrite of `if c: return x else: y` to `if c: return x` followed by `y`."""

    def leave_IndentedBlock(  # noqa: N802
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        return updated_node.with_changes(body=[new for old in updated_node.body for new in _without_else(old)])


def _without_else(statement: cst.BaseStatement) -> list[cst.BaseStatement]:
    match statement:
        case cst.If(body=cst.IndentedBlock(body=[*_, last]), orelse=cst.Else(body=cst.IndentedBlock(body=rest))):
            if m.matches(last, m.SimpleStatementLine(body=[m.Return() | m.Raise()])):
                return [statement.with_changes(orelse=None), *rest]
    return [statement]


_ASSIGNED: dict[type[cst.BaseAugOp], type[cst.BaseBinaryOp]] = {
    cst.AddAssign: cst.Add,
    cst.SubtractAssign: cst.Subtract,
    cst.MultiplyAssign: cst.Multiply,
}


class ExpandedSums(cst.CSTTransformer):
    """Rewrite of `x += y` to `x = x + (y)`, for plain names."""

    def leave_AugAssign(self, original_node: cst.AugAssign, updated_node: cst.AugAssign) -> cst.Assign | cst.AugAssign:  # noqa: N802
        match updated_node:
            case cst.AugAssign(target=cst.Name() as name, operator=operator, value=value) if (
                type(operator) in _ASSIGNED
            ):
                total = cst.BinaryOperation(name, _ASSIGNED[type(operator)](), _enclose(value))
                return cst.Assign([cst.AssignTarget(name)], total)
        return updated_node


def rename_locals(function: cst.FunctionDef) -> cst.FunctionDef:
    """Rename local variables. Functions with nested scopes stay unchanged."""
    if m.findall(function.body, m.FunctionDef() | m.Lambda() | m.Global() | m.Nonlocal() | m.ClassDef()):
        return function
    targets = [cst.ensure_type(found, cst.AssignTarget).target for found in m.findall(function, m.AssignTarget())]
    assigned = {target.value for target in targets if isinstance(target, cst.Name)}
    parameters = {cst.ensure_type(found, cst.Param).name.value for found in m.findall(function.params, m.Param())}
    return cst.ensure_type(function.visit(_Renamed(assigned - parameters)), cst.FunctionDef)


class _Renamed(cst.CSTTransformer):
    def __init__(self, names: set[str]) -> None:
        self.names = names

    def visit_Attribute_attr(self, node: cst.Attribute) -> None:  # noqa: N802
        """Skip attribute names: `leave_Attribute` keeps them."""

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:  # noqa: N802
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:  # noqa: N802
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:  # noqa: N802
        return (
            updated_node.with_changes(value=f"my_{updated_node.value}")
            if updated_node.value in self.names
            else updated_node
        )


REWRITES: dict[str, Rewrite] = {
    "renamed variables": rename_locals,
    "inverted branches": _by(InvertedBranches),
    "named results": _by(NamedResults),
    "mirrored comparisons": _by(MirroredComparisons),
    "double negation": _by(NegatedConditions),
    "early returns": _by(EarlyReturns),
    "expanded sums": _by(ExpandedSums),
}


def _split(module: cst.Module, function: str) -> str:
    """Move the body of a plain function to a helper. Return an empty text for methods and decorated functions."""
    for at, node in enumerate(module.body):
        match node:
            case cst.FunctionDef(name=cst.Name(value=name), decorators=[]) if (
                name == function and not node.asynchronous
            ):
                inner = node.with_changes(name=cst.Name(f"_do_{name}"))
                outer = cst.parse_statement(
                    f"\n\ndef {name}(*args, **kwargs):\n    return _do_{name}(*args, **kwargs)\n"
                )
                return module.with_changes(body=[*module.body[:at], inner, outer, *module.body[at + 1 :]]).code
    return ""
