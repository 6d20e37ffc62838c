"""Text to syntax tree: the only door to lark."""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import io
import re
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polytc import errors
from polytc.disk import cache
from polytc.errors import Span
from polytc.lang.parsing import syntax
from polytc.lang.parsing.mistakes import STARTS, explain, foreign
from polytc.lang.parsing.reader import Reader

if TYPE_CHECKING:
    from lark import Lark, Token

errors.register(E006="nested too deeply", E007="name that is too long")

NAME_LENGTH = 200
"""Characters of a name."""

_UNFINISHED = {"ASSIGN", "UPDATE", "OR", "AND", "BAR", "CARET", "AMP", "EQ", "NE", "LE", "GE", "LT", "GT", "SHL", "SHR", "PLUS",
               "MINUS", "STAR", "FLOOR", "SLASH", "PERCENT", "BANG", "TILDE", "COMMA", "COLON", "QMARK", "WHERE", "IN",
               "ELSE", "_ARROW", "LBRACE"}


class _Lines:
    """Drops the newlines that do not end a statement, and the doubled ones; names have one form (lark's postlex protocol)."""

    always_accept = ("_NL",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        depth, previous, pending = 0, "LBRACE", None
        for token in stream:
            if token.type == "NAME" and not token.isascii():
                token = token.update(value=unicodedata.normalize("NFKC", token))  # as in Python
            if token.type == "_NL":
                pending = pending or token
                continue
            ends = token.type in STARTS and previous not in _UNFINISHED and depth == 0
            if pending is not None and ends:
                yield pending
            pending = None
            depth += (token.type in ("LPAR", "LSQB")) - (token.type in ("RPAR", "RSQB"))
            yield token
            previous = token.type


def _grammar() -> str:
    try:
        return (importlib.resources.files("polytc.grammar") / "polytc.lark").read_text(encoding="utf-8")
    except ModuleNotFoundError:  # a checkout that is not installed
        return (Path(__file__).parents[3] / "grammar" / "polytc.lark").read_text(encoding="utf-8")


@functools.cache
def _parser() -> Lark:
    """The parser. Making its tables takes a tenth of a second, reading them from disk a tenth of that."""
    import lark  # slow to import, and needed only for text

    grammar = _grammar()
    facts = [lark.__version__, sys.version, Path(__file__).read_text(encoding="utf-8"), grammar]
    key = hashlib.sha256("\n".join(facts).encode()).hexdigest()
    tables = cache.get(key)
    if tables is not None:
        try:
            return lark.Lark.load(io.BytesIO(tables))
        except Exception:  # lark unpickles them, which may raise anything
            cache.drop(key)
    made = lark.Lark(grammar, parser="lalr", lexer="basic", postlex=_Lines(), propagate_positions=True,
                     maybe_placeholders=False)
    if cache.place() is not None:
        file = io.BytesIO()
        made.save(file)
        cache.put(key, file.getvalue())
    return made


@functools.lru_cache(maxsize=1024)
def parse(text: str) -> tuple[syntax.Function, ...]:
    """The functions of `text`; bare statements are one function named 'program'. Raises CompileError (E0xx)."""
    import lark

    _check_names(text)
    try:
        tree = _parser().parse(text)
    except lark.exceptions.UnexpectedCharacters as error:
        raise foreign(Span(error.pos_in_stream, error.pos_in_stream + 1, error.line, error.column), text) from None
    except lark.exceptions.UnexpectedInput as error:
        raise explain(error, text, _parser().parse) from None
    try:
        return Reader(text).program(tree)
    except RecursionError:
        raise errors.fail("E006", "an expression is nested too deeply", _deepest(tree, text),
                          ["put a part of it into a temporary"], source=text) from None


def _deepest(tree: Any, text: str) -> Span | None:
    """The place of the token that lies deepest in a tree of the parser."""
    level, token = [tree], None
    while level:
        level = [c for t in level for c in t.children]
        token = next((c for c in level if not hasattr(c, "children") and c is not None), token)
        level = [c for c in level if hasattr(c, "children")]
    return None if token is None else _span(text, token.start_pos, token.end_pos)


def _check_names(text: str) -> None:
    """Names are identifiers of Python (E003). They end up in generated code and in the names of files, so their length is
    limited (E007)."""
    for found in re.finditer(rf"#[^\n]*|[^\W\d]\w{{{NAME_LENGTH},}}" + ("" if text.isascii() else "|" + _NAME), text):
        name = found[0]
        if name.startswith("#"):
            continue
        if len(name) > NAME_LENGTH:
            raise errors.fail("E007", f"this name has {len(name)} characters", _span(text, found.start(), found.end()),
                              [f"a name has at most {NAME_LENGTH}"], source=text)
        known = "_" if found.start() and re.match(r"\d", text[found.start() - 1]) else ""
        for k in range(len(name)):
            if not (known + name[:k + 1]).isidentifier():
                raise foreign(_span(text, found.start() + k, found.start() + k + 1), text)


_NAME = r"([A-Za-z_]|[^\x00-\x7f\s])(\w|[^\x00-\x7f\s])*"
"""As in the grammar: what stands outside of ASCII belongs to a name, or to nothing."""


def _span(text: str, start: int, end: int) -> Span:
    line = text.rfind("\n", 0, start) + 1
    return Span(start, end, text.count("\n", 0, line) + 1, start - line + 1)
