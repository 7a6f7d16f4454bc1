"""Parse a .proto text into its elements, as Wire does, whose grammar Confluent's registry has: looser than protoc's in
names, and without editions. Unlike Wire, it accepts what follows a comment behind a field in the same line. `check` has
what a grammar cannot express.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker_registry.schema_types.protobuf import ast
from broker_registry.schema_types.protobuf.cursor import NESTING_MAX, Cursor
from broker_registry.schema_types.protobuf.lexer import END, position
from broker_registry.schema_types.protobuf.options import check_count, read_option, read_options

_LABELS: Final = frozenset(("required", "optional", "repeated"))


def parse_file(text: str) -> ast.File:
    """Return the elements of a text. Raises InvalidSchema with line and column."""
    return Parser(text).file()


class Parser(Cursor):
    """Each function reads from its element's first token, or from behind its first word, `at`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.syntax: str | None = None

    # Files

    def file(self) -> ast.File:
        package: str | None = None
        imports: dict[str, list[str]] = {"": [], "public": [], "weak": []}
        types: list[ast.Type] = []
        services: list[ast.Service] = []
        extends: list[ast.Extend] = []
        options: list[ast.Option] = []
        while (token := self.tokens[self.at]) != END:
            at = self.at
            if self.accept(";"):
                continue
            self.word()
            if token == "message":
                types.append(self.message(at, 1))
            elif token == "enum":
                types.append(self.enum(at))
            elif token == "service":
                services.append(self.service(at))
            elif token == "extend":
                extends.append(self.extend(at))
            elif token == "option":
                self.add_option(options)
            elif token == "package":
                package = self.name()
                self.require(";")
            elif token == "import":
                kind = "" if self.is_quoted() else self.word()
                if kind not in imports:
                    self.fail(f"expected public, weak or a quoted string, found '{kind}'", at + 1)
                imports[kind].append(_path(self.quoted()))
                self.require(";")
            elif token == "syntax":
                self.read_syntax(at)
            elif token == "reserved":
                self.reserved(at)
            elif token == "edition":
                self.fail("editions are not supported", at)
            else:
                self.fail(f"unexpected '{token[:40]}'", at)
        self.check_names([*types, *services])
        return ast.File(
            syntax=self.syntax,
            package=package,
            imports=tuple(imports[""]),
            public_imports=tuple(imports["public"]),
            weak_imports=tuple(imports["weak"]),
            types=tuple(types),
            services=tuple(services),
            extends=tuple(extends),
            options=tuple(options),
        )

    def read_syntax(self, at: int) -> None:
        if at != 0:
            self.fail("syntax must be the first declaration of a file", at)
        self.require("=")
        value = self.quoted()
        if value not in ("proto2", "proto3"):
            self.fail(f"unexpected syntax '{value[:40]}'", at)
        self.syntax = value
        self.require(";")

    def check_names(self, elements: list[ast.Type | ast.Service]) -> None:
        """Types have different names, and services have."""
        seen: dict[tuple[bool, str], int] = {}
        for each in elements:
            key = (isinstance(each, ast.Service), each.name)
            if key in seen:
                line, _ = position(self.text, seen[key])
                self.fail(f"{each.name} is already defined in line {line}", each.at)
            seen[key] = each.at

    def add_option(self, options: list[ast.Option]) -> None:
        options.append(self.option())
        check_count(self, options)

    def option(self) -> ast.Option:
        """Read `name = value;` behind the word option."""
        option = read_option(self, "=", 1)
        self.require(";")
        return option

    def members(self) -> Iterator[tuple[int, str]]:
        """The place and the first word of each member up to the closing brace; empty statements are skipped. The caller
        reads the rest of a member before it asks for the next one.
        """
        while not self.accept("}"):
            at = self.at
            if not self.accept(";"):
                yield at, self.word()

    # Messages

    def message(self, at: int, depth: int) -> ast.Message:
        if depth > NESTING_MAX:
            self.fail(f"messages are nested deeper than {NESTING_MAX}", at)
        name = self.name()
        fields: list[ast.Field] = []
        oneofs: list[ast.OneOf] = []
        types: list[ast.Type] = []
        options: list[ast.Option] = []
        reserved: list[ast.Reserved] = []
        extensions: list[ast.Extensions] = []
        groups: list[ast.Group] = []
        extends: list[ast.Extend] = []
        self.require("{")
        for at_member, token in self.members():
            if token == "message":
                types.append(self.message(at_member, depth + 1))
            elif token == "enum":
                types.append(self.enum(at_member))
            elif token == "oneof":
                oneofs.append(self.oneof(at_member))
            elif token == "option":
                self.add_option(options)
            elif token == "reserved":
                reserved.append(self.reserved(at_member))
            elif token == "extensions":
                extensions.append(self.extensions(at_member))
            elif token == "extend":
                extends.append(self.extend(at_member))
            else:
                label, field_type = self.label_and_type(token, at_member)
                # A type named group would be a group for Wire, too.
                if field_type == "group":
                    groups.append(self.group(label, at_member))
                else:
                    fields.append(self.field(label, field_type, at_member))
        return ast.Message(
            name,
            tuple(fields),
            tuple(oneofs),
            tuple(types),
            tuple(options),
            tuple(reserved),
            tuple(extensions),
            tuple(groups),
            tuple(extends),
            at,
        )

    def label_and_type(self, word: str, at: int) -> tuple[str | None, str]:
        if word not in _LABELS:
            if self.syntax != "proto3" and not (word == "map" and self.tokens[self.at] == "<"):
                self.fail(f"expected required, optional or repeated, found '{word[:40]}'", at)
            return None, self.data_type(word)
        if word == "required" and self.syntax == "proto3":
            self.fail("proto3 has no required fields", at)
        field_type = self.data_type()
        if field_type.startswith("map<"):
            self.fail("a map has no label", at)
        return word, field_type

    def field(self, label: str | None, field_type: str, at: int) -> ast.Field:
        """Read a field from its name on."""
        tokens = self.tokens
        at_name = self.at
        name = self.name()
        if name[0] in "0123456789":
            self.fail("names of fields do not begin with a digit", at_name)
        self.require("=")
        tag = self.integer()
        if tokens[self.at] == ";":
            self.at += 1
            return ast.Field(label, field_type, name, tag, at=at)
        default = json_name = None
        options = []
        for option in read_options(self):
            if option.name == "default":
                default = option_text(option)
            elif option.name == "json_name":
                json_name = option_text(option)
            else:
                options.append(option)
        self.require(";")
        return ast.Field(label, field_type, name, tag, tuple(options), default, json_name, at)

    def group(self, label: str | None, at: int) -> ast.Group:
        name = self.word()
        self.require("=")
        tag = self.integer()
        fields: list[ast.Field] = []
        self.require("{")
        while not self.accept("}"):
            at_field = self.at
            field_label, field_type = self.label_and_type(self.word(), at_field)
            if field_type == "group":
                self.fail("a group has no groups", at_field)
            fields.append(self.field(field_label, field_type, at_field))
        return ast.Group(label, name, tag, tuple(fields), at)

    def oneof(self, at: int) -> ast.OneOf:
        name = self.name()
        fields: list[ast.Field] = []
        groups: list[ast.Group] = []
        options: list[ast.Option] = []
        self.require("{")
        while not self.accept("}"):
            at_member = self.at
            member_type = self.data_type()
            if member_type == "group":
                groups.append(self.group(None, at_member))
            elif member_type == "option":
                self.add_option(options)
            else:
                fields.append(self.field(None, member_type, at_member))
        return ast.OneOf(name, tuple(fields), tuple(groups), tuple(options), at)

    def reserved(self, at: int) -> ast.Reserved:
        values: list[str | int | ast.Range] = []
        while True:
            values.append(self.quoted() if self.is_quoted() else self.number_or_range())
            if self.accept(";"):
                return ast.Reserved(tuple(values), at)
            if not self.accept(","):
                self.fail(f"expected ',' or ';', found {self.found()}")

    def number_or_range(self) -> int | ast.Range:
        first = self.integer()
        if self.tokens[self.at] in (",", ";", "["):
            return first
        if not self.accept("to"):
            self.fail(f"expected ',', ';' or 'to', found {self.found()}")
        return ast.Range(first, ast.TAG_MAX if self.accept("max") else self.integer())

    def extensions(self, at: int) -> ast.Extensions:
        values: list[int | ast.Range] = []
        while True:
            values.append(self.number_or_range())
            if self.tokens[self.at] == "[":
                options = read_options(self)
                self.require(";")
                return ast.Extensions(tuple(values), tuple(options), at)
            if self.accept(";"):
                return ast.Extensions(tuple(values), (), at)
            if not self.accept(","):
                self.fail(f"expected ',' or ';', found {self.found()}")

    def extend(self, at: int) -> ast.Extend:
        name = self.name()
        fields: list[ast.Field] = []
        self.require("{")
        for at_field, token in self.members():
            if token == "option":
                # Wire reads options and reserved numbers here, and leaves them out.
                self.option()
            elif token == "reserved":
                self.reserved(at_field)
            else:
                label, field_type = self.label_and_type(token, at_field)
                if field_type == "group":
                    self.group(label, at_field)
                else:
                    fields.append(self.field(label, field_type, at_field))
        return ast.Extend(name, tuple(fields), at)

    # Enums and services

    def enum(self, at: int) -> ast.EnumType:
        name = self.name()
        values: list[ast.EnumValue] = []
        options: list[ast.Option] = []
        reserved: list[ast.Reserved] = []
        self.require("{")
        for at_value, token in self.members():
            if token == "option":
                self.add_option(options)
            elif token == "reserved":
                reserved.append(self.reserved(at_value))
            else:
                if token[0] in "0123456789":
                    self.fail("names of constants do not begin with a digit", at_value)
                self.require("=")
                tag = self.integer()
                value_options = () if self.tokens[self.at] == ";" else tuple(read_options(self))
                self.require(";")
                values.append(ast.EnumValue(token, tag, value_options, at_value))
        return ast.EnumType(name, tuple(values), tuple(options), tuple(reserved), at)

    def service(self, at: int) -> ast.Service:
        name = self.name()
        rpcs: list[ast.Rpc] = []
        options: list[ast.Option] = []
        self.require("{")
        for at_member, token in self.members():
            if token == "rpc":
                rpcs.append(self.rpc(at_member))
            elif token == "option":
                self.add_option(options)
            elif token == "reserved":
                self.reserved(at_member)
            else:
                self.fail(f"unexpected '{token[:40]}' in a service", at_member)
        return ast.Service(name, tuple(rpcs), tuple(options), at)

    def rpc(self, at: int) -> ast.Rpc:
        name = self.name()
        request, streams_request = self.rpc_type()
        if not self.accept("returns"):
            self.fail(f"expected 'returns', found {self.found()}")
        response, streams_response = self.rpc_type()
        options: list[ast.Option] = []
        if self.accept("{"):
            for at_member, token in self.members():
                if token == "option":
                    self.add_option(options)
                elif token == "reserved":
                    self.reserved(at_member)
                else:
                    self.fail(f"unexpected '{token[:40]}' in an rpc", at_member)
        else:
            self.require(";")
        return ast.Rpc(name, request, response, streams_request, streams_response, tuple(options), at)

    def rpc_type(self) -> tuple[str, bool]:
        self.require("(")
        word = self.word()
        result = (self.data_type(), True) if word == "stream" else (self.data_type(word), False)
        self.require(")")
        return result


def option_text(option: ast.Option) -> str:
    """Return the value of `default` or `json_name`: they are not among the options of a field."""
    return option.value if isinstance(option.value, str) else str(option.value)


def _path(name: str) -> str:
    """Return the path of an import with slashes, without empty and `.` parts."""
    parts = [each for each in name.replace("\\", "/").split("/") if each not in ("", ".")]
    return ("/" if name[:1] in ("/", "\\") else "") + "/".join(parts)
