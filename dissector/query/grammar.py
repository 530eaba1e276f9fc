"""The grammar of the filter language and the way from its text to a tree.

    filter    : [or]                                    an empty filter takes every message
    or        : and (("or" | "||") and)*
    and       : not (("and" | "&&") not)*
    not       : ("not" | "!") not | "(" or ")" | test
    test      : NAME | "a message's name" | NAME ["not"] operator value | NAME ["not"] "in" set
    set       : "{" item ("," item)* "}" | "(" item ("," item)* ")"
    item      : value | value ".." value

What is a name and what a value follows from the place (lark's contextual lexer), so that values such
as 0/1A2B3C4, 12:00:03 or cut-short need no quotes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken, VisitError
from lark.visitors import Transformer_NonRecursive

from .columns import ALWAYS, COLUMNS, Leaf, Number, column_leaf, message_leaf
from .errors import QueryError, did_you_mean
from .fields import column_test, field_leaf, finding_leaf
from .names import TUPLE_NAMES, Names
from .tree import Expr, OnColumn, OnColumns, OnMessage, close, combine, group, negate
from .values import Item, Literal, Pattern, Range

MAX_TEXT = 100_000
"""Characters of a filter: room for thousands of values in a set, not for a file pasted by mistake."""

GRAMMAR = r"""
start: [either]
?either: both | both (_OR both)+      -> any_of
?both: negation | negation (_AND negation)+ -> all_of
?negation: NOT negation               -> negation
    | "(" either ")"                  -> group
    | test
?test: NAME                           -> bare
    | STRING                          -> bare
    | NAME [NOT] OPERATOR value       -> compare
    | NAME [NOT] IN set               -> member
set: "{" item ("," item)* [","] "}" | "(" item ("," item)* [","] ")"
?item: value | value ".." value       -> span
value: STRING | DATETIME | VALUE

_OR.2: /\|\||or(?![\w.\[])/i
_AND.2: /&&|and(?![\w.\[])/i
NOT.2: /!(?![=~])|not(?![\w.\[])/i
IN.2: /in(?![\w.\[])/i
OPERATOR.2: /==|!=|<>|<=|>=|=|<|>|~\*|~|(contains|matches|eq|ne|gt|ge|lt|le)(?![\w.\[])/i
NAME: /[^\W\d]\w*(\[\d+\])?(\.[^\W\d]\w*(\[\d+\])?)*/
STRING.1: /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/s
DATETIME.1: /\d{4}-\d\d-\d\d[ T]\d\d?:\d\d(:\d\d(\.\d+)?)?( ?(Z|UTC)(?!\w)|[+-]\d\d(:?\d\d)?)?/i
VALUE: /((?!\.\.)[^\s(){},"'&|=<>!~])+/
%ignore /\s+/
"""

_SAME = {
    "=": "==",
    "<>": "!=",
    "eq": "==",
    "ne": "!=",
    "gt": ">",
    "ge": ">=",
    "lt": "<",
    "le": "<=",
}
_WORDS = {"~": "matches"}
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r"}


def operator(text: str) -> str:
    """The one spelling of an operator."""
    text = text.lower()
    return _WORDS.get(text) or _SAME.get(text, text)


def unquote(text: str) -> tuple[str, str]:
    """(text, regular expression) of a quoted string. In the first, backslash and quote, n, t, r, xNN,
    uNNNN are resolved and any other backslash stays; the second only loses the quotes."""
    quote, inner = text[0], text[1:-1]

    def resolve(match: re.Match[str]) -> str:
        if match[1] or match[2]:
            return chr(int(match[1] or match[2], 16))
        char: str = match[3]
        return char if char in "\\\"'" else _PLAIN.get(char, "\\" + char)

    return _ESCAPE.sub(resolve, inner), inner.replace("\\" + quote, quote)


@lru_cache(maxsize=1)
def parser() -> Lark:
    """The parser, made once."""
    return Lark(GRAMMAR, parser="lalr", lexer="contextual", maybe_placeholders=True)


class Builder(Transformer_NonRecursive):
    """Makes the tree of conditions from lark's, from below, without recursion."""

    def __init__(self, names: Names) -> None:
        super().__init__(visit_tokens=False)
        self.names = names
        self.literals: list[Literal] = []
        self.rows = message_leaf(frozenset(names.with_columns), names.canonical)

    def start(self, children: list[Any]) -> Expr | None:
        return close(children[0], self.rows) if children and children[0] is not None else None

    def any_of(self, children: list[Any]) -> Expr:
        return combine(children, False, self.rows, 0)

    def all_of(self, children: list[Any]) -> Expr:
        return combine(children, True, self.rows, 0)

    def negation(self, children: list[Any]) -> Expr:
        return negate(children[1], children[0].start_pos)

    def group(self, children: list[Any]) -> Expr:
        return group(children[0])

    def value(self, children: list[Any]) -> Literal:
        token = children[0]
        if token.type == "STRING":
            text, raw = unquote(token)
            literal = Literal(text, token.start_pos, True, raw)
        else:
            literal = Literal(str(token), token.start_pos)
        self.literals.append(literal)
        return literal

    def span(self, children: list[Any]) -> Range:
        return Range(children[0], children[1])

    def set(self, children: list[Any]) -> list[Item]:
        return [each for each in children if each is not None]

    def compare(self, children: list[Any]) -> Expr:
        name, inverted, op, literal = children
        return self._test(name, inverted, operator(op), [literal], op.start_pos)

    def member(self, children: list[Any]) -> Expr:
        name, inverted, word, items = children
        return self._test(name, inverted, "in", items, word.start_pos)

    def _test(
        self, name: Token, inverted: Token | None, op: str, items: list[Item], at: int
    ) -> Expr:
        expr = self._condition(name, op, items, at)
        return negate(expr, at) if inverted is not None else expr

    def _condition(self, name: Token, op: str, items: list[Item], at: int) -> Expr:
        key = name.lower()
        if key == "finding":
            return self._finding(op, items, at)
        if key in COLUMNS:
            if key == "message" and op in ("==", "!=", "in"):
                for item in items:
                    if isinstance(item, Range):
                        raise QueryError(
                            "", item.low.position, "messages have no order", "{Insert, Update}"
                        )
                    self.names.require_message(item.text, item.position)
            leaf = column_leaf(key, op, items, at, self.names.canonical)
            return OnColumns(leaf, columns_only=True)
        if key in TUPLE_NAMES:
            return OnColumn(column_test(key, op, items, at))
        declared, segments = self.names.resolve(str(name), name.start_pos or 0)
        condition = field_leaf(declared, segments, op, items, at, self.names)
        return OnMessage(condition, self._holding(condition.messages))

    def _finding(self, op: str, items: list[Item], at: int) -> Expr:
        any_finding = Number("severity", None, 0)
        if op == "exists":
            return OnColumns(any_finding, columns_only=True)
        return OnMessage(finding_leaf(op, items, at), any_finding)

    def _holding(self, messages: frozenset[str]) -> Leaf:
        return message_leaf(messages, self.names.canonical)

    def bare(self, children: list[Any]) -> Expr:
        """A word alone: does it exist? A column in lower case, else a message, else a field."""
        token = children[0]
        at = token.start_pos
        if token.type == "STRING":
            name = unquote(token)[0]
            self.names.require_message(name, at)
        else:
            name = str(token)
        column = name in COLUMNS and not (name in ALWAYS and self.names.is_message(name))
        if token.type != "STRING" and (column or name.lower() in TUPLE_NAMES):
            return self._condition(token, "exists", [], at)
        if self.names.is_message(name):
            leaf = self._holding(frozenset((self.names.canonical(name),)))
            return OnColumns(leaf, columns_only=True)
        return self._condition(token, "exists", [], at)


def parse(text: str, names: Names) -> tuple[Expr | None, list[Pattern]]:
    """The tree of `text` (None for an empty filter) and its regular expressions. Raises QueryError."""
    if len(text) > MAX_TEXT:
        raise QueryError(
            text,
            MAX_TEXT,
            f"a filter has at most {MAX_TEXT} characters, this one has {len(text)}",
            "filter a range: xid in {700..900}",
        )
    builder = Builder(names)
    try:
        tree = builder.transform(parser().parse(text))
    except UnexpectedInput as problem:
        raise explain(text, problem, names) from None
    except VisitError as problem:
        if isinstance(problem.orig_exc, QueryError):
            raise problem.orig_exc.within(text) from None
        raise
    return tree, [each.pattern for each in builder.literals if each.pattern is not None]


# --- errors ----------------------------------------------------------------------------------------

_OPERATOR_HINT = "write an operator and a value: ==, !=, <, <=, >, >=, in {...}, contains, matches"


def explain(text: str, problem: UnexpectedInput, names: Names) -> QueryError:
    token = getattr(problem, "token", None)
    ended = isinstance(problem, UnexpectedToken) and (token is None or token.type == "$END")
    at = len(text) if ended else (problem.pos_in_stream or 0)
    wanted: set[str] = set()
    if isinstance(problem, UnexpectedToken):
        wanted |= set(problem.accepts or problem.expected or ())
    elif isinstance(problem, UnexpectedCharacters):
        wanted |= set(problem.allowed or ())
    rest = text[at:]
    found = "the filter ends" if ended else f"{rest[:20].split(maxsplit=1)[0]} stands"
    if rest[:1] in ("'", '"'):
        if not re.match(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'", rest, re.DOTALL):
            return QueryError(text, at, "this text does not end", f"close it with {rest[0]}")
        return QueryError(text, at, "a quoted value is not expected here", "join two tests by and")
    if "VALUE" in wanted:
        return QueryError(text, at, f"{found} where a value is expected", _value_hint(rest))
    if "OPERATOR" in wanted:
        before = re.search(r"([^\W\d][\w.]*)\s+$", text[:at])
        after = re.match(r"[^\W\d]\w*", rest)
        if before and after:
            both = f"{before[1]} {after[0]}"
            if names.is_message(both):
                return QueryError(text, at, "a name with a space needs quotes", f'write "{both}"')
            near = did_you_mean(after[0], ("and", "or", "in", "not", "contains", "matches"))
            return QueryError(
                text, at, f"{found} where an operator is expected", near or _OPERATOR_HINT
            )
        return QueryError(text, at, f"{found} where an operator is expected", _OPERATOR_HINT)
    if "NAME" in wanted:
        return QueryError(
            text, at, f"{found} where a name is expected", "begin with a name: xid == 771, Insert"
        )
    before = re.search(r"=\s*([^\W\d]\w*)\s+$", text[:at])
    after = re.match(r"[^\W\d]\w*", rest)
    if before and after and names.is_message(f"{before[1]} {after[0]}"):
        both = f"{before[1]} {after[0]}"
        return QueryError(text, at, "a name with a space needs quotes", f'write "{both}"')
    if re.match(r"&(?!&)|\|(?!\|)", rest):
        return QueryError(text, at, f"a single {rest[0]} means nothing", "write and, or (&&, ||)")
    if "COMMA" in wanted and re.search(r"\bin\s*[{(][^{}()]*$", text[:at], re.IGNORECASE):
        return QueryError(text, at, f"{found} inside a set", "write in {1, 2, 5..9}")
    near = did_you_mean(after[0], ("and", "or")) if after else ""
    if "RPAR" in wanted and text[:at].count("(") > text[:at].count(")"):
        hint = near or "close the parenthesis"
        return QueryError(text, at, f"{found} where ), and, or is expected", hint)
    return QueryError(text, at, f"{found} after a whole test", near or "join tests by and, or")


def _value_hint(rest: str) -> str:
    if re.match(r"[=<>~!]", rest):
        return "one operator is enough: ==, !=, <, <=, >, >="
    return 'values with spaces or signs are written in quotes: "a b"'
