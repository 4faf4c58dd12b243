"""The C structs of XLA's foreign function interface, as far as bed uses it, in ctypes.

Names and numbers are those of ``xla/ffi/api/c_api.h`` in versions 0.3 and 0.4, which
agree in all that is here.
"""

import ctypes
from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_void_p,
)
from typing import Any

import numpy as np

# What this file is written for. XLA takes handlers of older minor versions.
MAJOR, MINOR = 0, 3

METADATA = 1  # XLA_FFI_Extension_Metadata
EXECUTE = 3  # XLA_FFI_ExecutionStage_EXECUTE
BUFFER = 1  # XLA_FFI_ArgType_BUFFER, XLA_FFI_RetType_BUFFER
STRING = 4  # XLA_FFI_AttrType_STRING
INTERNAL = 13  # XLA_FFI_Error_Code_INTERNAL

# XLA_FFI_DataType of the dtypes that go in and out of solvers.
DTYPES: dict[int, np.dtype] = {
    4: np.dtype("i4"),
    11: np.dtype("f4"),
    12: np.dtype("f8"),
    15: np.dtype("c8"),
    18: np.dtype("c16"),
}

# Most structs begin with their size, by which XLA tells versions apart.
_HEAD: tuple[Any, ...] = (("struct_size", c_size_t), ("extension_start", c_void_p))


class Version(Structure):
    """XLA_FFI_Api_Version."""

    _fields_ = [*_HEAD, ("major_version", c_int), ("minor_version", c_int)]


class Api(Structure):
    """XLA_FFI_Api, as far as it is used."""

    _fields_ = [
        *_HEAD,
        ("api_version", Version),
        ("internal_api", c_void_p),
        ("XLA_FFI_Error_Create", c_void_p),
        ("XLA_FFI_Error_GetMessage", c_void_p),  # 0.4: XLA_FFI_Error_GetDetails
        ("XLA_FFI_Error_Destroy", c_void_p),
        ("XLA_FFI_Handler_Register", c_void_p),
        ("XLA_FFI_Stream_Get", c_void_p),
        *((f"unused_{i}", c_void_p) for i in range(12)),
        ("XLA_FFI_DeviceOrdinal_Get", c_void_p),
    ]


class ErrorCreate(Structure):
    """XLA_FFI_Error_Create_Args."""

    _fields_ = [*_HEAD, ("message", c_char_p), ("errc", c_int)]


class ErrorDetails(Structure):
    """XLA_FFI_Error_GetDetails_Args; 0.3 fills in all but the last field."""

    _fields_ = [*_HEAD, ("error", c_void_p), ("message", c_char_p), ("errc", c_int)]


class ErrorDestroy(Structure):
    """XLA_FFI_Error_Destroy_Args."""

    _fields_ = [*_HEAD, ("error", c_void_p)]


class StreamGet(Structure):
    """XLA_FFI_Stream_Get_Args."""

    _fields_ = [*_HEAD, ("ctx", c_void_p), ("stream", c_void_p)]


class DeviceOrdinalGet(Structure):
    """XLA_FFI_DeviceOrdinal_Get_Args."""

    _fields_ = [*_HEAD, ("ctx", c_void_p), ("device_ordinal", c_int32)]


class BufferStruct(Structure):
    """XLA_FFI_Buffer."""

    _fields_ = [
        *_HEAD,
        ("dtype", c_int),
        ("data", c_void_p),
        ("rank", c_int64),
        ("dims", POINTER(c_int64)),
    ]


class ByteSpan(Structure):
    """XLA_FFI_ByteSpan: a string with its length."""

    _fields_ = [("ptr", c_void_p), ("len", c_size_t)]


class Buffers(Structure):
    """XLA_FFI_Args and XLA_FFI_Rets."""

    _fields_ = [
        *_HEAD,
        ("size", c_int64),
        ("types", POINTER(c_int)),
        ("items", POINTER(POINTER(BufferStruct))),
    ]


class Attrs(Structure):
    """XLA_FFI_Attrs; what `attrs` points to depends on the type."""

    _fields_ = [
        *_HEAD,
        ("size", c_int64),
        ("types", POINTER(c_int)),
        ("names", POINTER(POINTER(ByteSpan))),
        ("attrs", POINTER(c_void_p)),
    ]


class CallFrame(Structure):
    """XLA_FFI_CallFrame up to the last field that its size counts."""

    _fields_ = [
        *_HEAD,
        ("api", POINTER(Api)),
        ("ctx", c_void_p),
        ("stage", c_int),
        ("args", Buffers),
        ("rets", Buffers),
        ("attrs", Attrs),
    ]


class Metadata(Structure):
    """XLA_FFI_Metadata as far as it is written; XLA zeroes the rest."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("api_version", Version),
        ("traits", c_uint32),
    ]


class MetadataExtension(Structure):
    """XLA_FFI_Metadata_Extension: how XLA asks for the metadata."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("type", c_int),
        ("next", c_void_p),
        ("metadata", POINTER(Metadata)),
    ]


# XLA_FFI_Handler. Functions of the API have the same form: a struct in, an error out.
HANDLER = ctypes.CFUNCTYPE(c_void_p, POINTER(CallFrame))
FUNCTION = ctypes.CFUNCTYPE(c_void_p, c_void_p)


def size(struct: type[Structure]) -> int:
    """What ``struct_size`` holds: up to the end of the last field, without padding."""
    last = getattr(struct, struct._fields_[-1][0])
    return last.offset + last.size
