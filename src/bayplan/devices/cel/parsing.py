"""Expressions as trees: cel-python's grammar with the optional syntax, and its trees without what says nothing."""

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
"""What cel-go's grammar has beyond that of cel-python: a.?b, a[?b], [?a], {?a: b}, and a comma at the end."""

_PASSING = frozenset(
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
"""The functions that cel-python's nodes of operators stand for."""

CONSTANT = "constant"
"""A node with a value for its child, which planning puts into a tree."""

Tree = lark.Tree[Any]


class InvalidSyntax(ValueError):
    """A text that is no expression."""


@cache
def _parser() -> lark.Lark:
    """Built once, as cel-python does with its own: that takes a while, and it keeps nothing of what it parses."""
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
    """The expression, with nodes of one child left out where they only pass it on. Raises InvalidSyntax."""
    try:
        return _simplified(_parser().parse(text))
    except UnexpectedInput as error:
        where = f" at {error.line}:{error.column}" if error.line > 0 else ""
        raise InvalidSyntax(f"syntax error{where}") from None


def identifier(tree: Tree) -> str | None:
    """The name that an expression consists of, if it is no more than a name."""
    return str(tree.children[0]) if tree.data == "ident" else None


def qualified_name(tree: Tree) -> str | None:
    """The name that an expression may be, with dots in it."""
    parts: list[str] = []
    while tree.data == "member_dot":
        parts.append(str(tree.children[1]))
        tree = tree.children[0]
    if tree.data not in {"ident", "dot_ident"}:
        return None
    return ".".join([str(tree.children[0]), *reversed(parts)])


def arguments_of(call: Tree) -> list[Tree]:
    """The arguments of a call of a function or a method."""
    last = call.children[-1]
    return list(last.children) if isinstance(last, lark.Tree) and last.data == "exprlist" else []


def _simplified(tree: Tree) -> Tree:
    while (inner := _passed_on(tree)) is not None:
        tree = inner
    children = _links(tree) if tree.data in _CHAINS else tree.children
    simplified = [_simplified(child) if isinstance(child, lark.Tree) else child for child in children]
    if tree.data == "optional_entry":
        return lark.Tree("entry", [simplified[0], lark.Tree("optional_element", simplified[1:])])
    return lark.Tree(str(tree.data), simplified)  # the names of rules are tokens, which compare slowly


def _passed_on(tree: Tree) -> Tree | None:
    """What a node only passes on: its one child, or what stands behind --, !!."""
    last: Any = tree.children[-1] if tree.children else None
    if tree.data in _PASSING and len(tree.children) == 1:
        return last if isinstance(last, lark.Tree) else None
    if tree.data == "unary" and last.data == "unary" and len(last.children) == 2:
        return last.children[1] if tree.children[0] == last.children[0] else None
    return None


def _links(tree: Tree) -> list[Tree]:
    """All that && or || stands between: as a chain of any length, not as a tree of that depth."""
    links: list[Tree] = []
    name = tree.data
    while tree.data == name and len(tree.children) == 2:
        tree, right = tree.children
        links.append(right)
    return [tree, *reversed(links)]
