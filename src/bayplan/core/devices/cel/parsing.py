"""Parses expressions to a simple syntax tree. The library of the parser is slow to import."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import lark
from lark.exceptions import UnexpectedInput

_OPERATORS = {
    "lt": "_<_",
    "le": "_<=_",
    "gt": "_>_",
    "ge": "_>=_",
    "eq": "_==_",
    "ne": "_!=_",
    "in": "@in",
    "add": "_+_",
    "sub": "_-_",
    "mul": "_*_",
    "div": "_/_",
    "mod": "_%_",
    "not": "!_",
    "neg": "-_",
}
_CHAINS = frozenset({"or", "and"})

CONSTANT = "constant"
"""The node of a folded constant. Its child is the value."""
OPERATOR = "operator"
"""The node of an operator. Its children are the name of the function and the operands."""


@dataclass(slots=True)
class Tree:
    """A node of a syntax tree: a rule of the grammar or one of the nodes above, and subtrees and tokens."""

    data: str
    children: list[Any]


class InvalidSyntax(ValueError):
    """A text isn't a valid expression."""


@cache
def _parser() -> Any:
    """The parser, built once because that is slow. It has no state."""

    def word(token: lark.Token) -> lark.Token:
        return lark.Token("BOOL_LIT", token.value) if token.value in {"true", "false"} else token

    grammar = resources.files(__package__).joinpath("grammar.lark").read_text()
    return lark.Lark(grammar, parser="lalr", start="expr", lexer_callbacks={"IDENT": word}, maybe_placeholders=False)


def parse(text: str) -> Tree:
    """Parse an expression. Raises InvalidSyntax."""
    parser = _parser()
    try:
        return _simplified(parser.parse(text))
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
    return ".".join([str(tree.children[0]), *reversed(parts)]) if tree.data == "ident" else None


def arguments_of(call: Tree) -> list[Tree]:
    """The arguments of a function or method call."""
    last = call.children[-1]
    return list(last.children) if isinstance(last, Tree) and last.data == "arguments" else []


def _simplified(parsed: Any) -> Tree:
    while parsed.data == "paren":
        parsed = parsed.children[0]
    name = str(parsed.data)  # rule names are lark's tokens, which compare slowly
    if name in {"not", "neg"} and (inner := parsed.children[0]).data == name:  # !! and -- have no effect
        return _simplified(inner.children[0])
    children = _operands(parsed) if name in _CHAINS else parsed.children
    simplified = [_simplified(child) if hasattr(child, "data") else child for child in children]
    if name == "optional_entry":
        return Tree("entry", [simplified[0], Tree("optional_element", simplified[1:])])
    return Tree(OPERATOR, [_OPERATORS[name], *simplified]) if name in _OPERATORS else Tree(name, simplified)


def _operands(parsed: Any) -> list[Any]:
    """The operands of a chain of && or ||, as a flat list instead of a deep tree."""
    operands: list[Any] = []
    name = parsed.data
    while parsed.data == name:
        parsed, right = parsed.children
        operands.append(right)
    return [parsed, *reversed(operands)]
