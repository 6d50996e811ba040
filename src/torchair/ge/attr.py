"""Typed attribute values for ``torchair.ge.custom_op`` (specification, F-58)."""

from __future__ import annotations

from torchair.opset.attributes import ATTR_CLASSES, TypedAttr

__all__ = [
    "Bool",
    "DataType",
    "Float",
    "Int",
    "ListBool",
    "ListDataType",
    "ListFloat",
    "ListInt",
    "ListListFloat",
    "ListListInt",
    "ListStr",
    "Str",
    "TypedAttr",
]

Bool = ATTR_CLASSES["Bool"]
DataType = ATTR_CLASSES["DataType"]
Float = ATTR_CLASSES["Float"]
Int = ATTR_CLASSES["Int"]
ListBool = ATTR_CLASSES["ListBool"]
ListDataType = ATTR_CLASSES["ListDataType"]
ListFloat = ATTR_CLASSES["ListFloat"]
ListInt = ATTR_CLASSES["ListInt"]
ListListFloat = ATTR_CLASSES["ListListFloat"]
ListListInt = ATTR_CLASSES["ListListInt"]
ListStr = ATTR_CLASSES["ListStr"]
Str = ATTR_CLASSES["Str"]
