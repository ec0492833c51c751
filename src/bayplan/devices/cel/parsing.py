"""Parses expressions: cel-python's grammar, extended by the optional syntax, and a simplified syntax tree."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any

import lark
from celpy.celparser import CELParser
from lark.exceptions import UnexpectedInput

_OPTIONAL_SYNTAX = r"""
%extend member : member_optional_dot | member_optional_index
member_optional_dot : member "." "?" IDENT
member_optional_index : member "[" "?" expr "]"

%override list_lit : "[" [_elements] "]"
_elements : _element ("," _element)* ","? | ","
_element : expr | optional_element
optional_element : "?" expr

%override map_lit : "{" [_entries] "}"
_entries : _entry ("," _entry)* ","? | ","
_entry : entry | optional_entry
entry : expr ":" expr
optional_entry : "?" expr ":" expr
"""
"""Syntax of cel-go that cel-python's grammar lacks: a.?b, a[?b], [?a], {?a: b}, and trailing commas."""

_WRAPPERS = frozenset(
    {
        *("expr", "conditionalor", "conditionaland", "relation", "addition", "multiplication", "unary", "member"),
        *("primary", "paren_expr"),
    }
)
_CHAINS = frozenset({"conditionalor", "conditionaland"})

OPERATORS = {
    "relation_lt": "_<_",
    "relation_le": "_<=_",
    "relation_gt": "_>_",
    "relation_ge": "_>=_",
    "relation_eq": "_==_",
    "relation_ne": "_!=_",
    "relation_in": "@in",
    "addition_add": "_+_",
    "addition_sub": "_-_",
    "multiplication_mul": "_*_",
    "multiplication_div": "_/_",
    "multiplication_mod": "_%_",
    "unary_not": "!_",
    "unary_neg": "-_",
}
"""The functions of cel-python's operator nodes."""

CONSTANT = "constant"
"""The node of a folded constant. Its child is the value."""

Tree = lark.Tree[Any]


class InvalidSyntax(ValueError):
    """A text isn't a valid expression."""


@cache
def _parser() -> lark.Lark:
    """The parser, built once because that is slow. It has no state."""
    grammar = resources.files("celpy").joinpath("cel.lark").read_text()
    return lark.Lark(
        grammar + _OPTIONAL_SYNTAX,
        parser="lalr",
        start="expr",
        g_regex_flags=re.MULTILINE,
        lexer_callbacks={"IDENT": CELParser.ambiguous_literals},
        maybe_placeholders=False,
        priority="invert",
    )


def parse(text: str) -> Tree:
    """Parse an expression. Nodes that only wrap their single child are removed. Raises InvalidSyntax."""
    try:
        return _simplified(_parser().parse(text))
    except UnexpectedInput as error:
        where = f" at {error.line}:{error.column}" if error.line > 0 else ""
        raise InvalidSyntax(f"syntax error{where}") from None


def identifier(tree: Tree) -> str | None:
    """The name, if the expression is a plain name."""
    return str(tree.children[0]) if tree.data == "ident" else None


def qualified_name(tree: Tree) -> str | None:
    """The dotted name, if the expression is one."""
    parts: list[str] = []
    while tree.data == "member_dot":
        parts.append(str(tree.children[1]))
        tree = tree.children[0]
    if tree.data not in {"ident", "dot_ident"}:
        return None
    return ".".join([str(tree.children[0]), *reversed(parts)])


def arguments_of(call: Tree) -> list[Tree]:
    """The arguments of a function or method call."""
    last = call.children[-1]
    return list(last.children) if isinstance(last, lark.Tree) and last.data == "exprlist" else []


def _simplified(tree: Tree) -> Tree:
    while (inner := _wrapped(tree)) is not None:
        tree = inner
    children = _operands(tree) if tree.data in _CHAINS else tree.children
    simplified = [_simplified(child) if isinstance(child, lark.Tree) else child for child in children]
    if tree.data == "optional_entry":
        return lark.Tree("entry", [simplified[0], lark.Tree("optional_element", simplified[1:])])
    return lark.Tree(str(tree.data), simplified)  # rule names are lark tokens, which compare slowly


def _wrapped(tree: Tree) -> Tree | None:
    """The child of a node that only wraps it, or the operand of -- or !!."""
    last: Any = tree.children[-1] if tree.children else None
    if tree.data in _WRAPPERS and len(tree.children) == 1:
        return last if isinstance(last, lark.Tree) else None
    if tree.data == "unary" and last.data == "unary" and len(last.children) == 2:
        return last.children[1] if tree.children[0] == last.children[0] else None
    return None


def _operands(tree: Tree) -> list[Tree]:
    """The operands of a chain of && or ||, as a flat list instead of a deep tree."""
    operands: list[Tree] = []
    name = tree.data
    while tree.data == name and len(tree.children) == 2:
        tree, right = tree.children
        operands.append(right)
    return [tree, *reversed(operands)]
