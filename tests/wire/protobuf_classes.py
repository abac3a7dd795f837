"""Message classes of the protobuf library, from the declarations in protobuf_messages.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FIELD = descriptor_pb2.FieldDescriptorProto
PLAIN = {
    "bytes": FIELD.TYPE_BYTES, "string": FIELD.TYPE_STRING, "bool": FIELD.TYPE_BOOL, "int64": FIELD.TYPE_INT64,
    "uint64": FIELD.TYPE_UINT64,
}  # fmt: skip


DECLARED = tomllib.loads(Path(__file__).with_name("protobuf_messages.toml").read_text(encoding="utf-8"))


def message_classes(package: str, enums: Mapping[str, Sequence[str]] | None = None) -> dict[str, Any]:
    """Return a class for each message that is declared in a package. `enums` has the names of values by enum."""
    declared: Mapping[str, str] = DECLARED[package]
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto2")
    for name, values in (enums or {}).items():
        enum = file.enum_type.add(name=name)
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
    for name, fields in declared.items():
        message = file.message_type.add(name=name)
        for field in fields.split():
            own_name, _, rest = field.partition(":")
            kind, _, number = rest.partition("=")
            label = FIELD.LABEL_REPEATED if kind[-1] in "*+" else FIELD.LABEL_OPTIONAL
            added = message.field.add(name=own_name, number=int(number), label=label)
            added.options.packed = kind.endswith("+")
            kind = kind.rstrip("*+")
            if kind in PLAIN:
                added.type = PLAIN[kind]
            else:  # a message or an enum of this file
                added.type_name = f".{package}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in declared
    }
