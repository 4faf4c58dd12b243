"""A Python function as a handler of XLA's foreign function interface, through ctypes.

XLA asks a handler for its version when it is registered. That is where both sides
compare what they know, and what does not fit is refused. A handler that is made here is
called to execute and in no other stage, and does not ask to be captured into command
buffers.
"""

import ctypes
from collections.abc import Callable
from ctypes import Structure
from typing import Any, NamedTuple

import numpy as np

from .c_api import (
    BUFFER,
    DTYPES,
    EXECUTE,
    FUNCTION,
    HANDLER,
    INTERNAL,
    MAJOR,
    METADATA,
    MINOR,
    STRING,
    Api,
    Attrs,
    Buffers,
    ByteSpan,
    CallFrame,
    DeviceOrdinalGet,
    ErrorCreate,
    ErrorDestroy,
    ErrorDetails,
    Metadata,
    MetadataExtension,
    StreamGet,
    Version,
    size,
)


class Buffer(NamedTuple):
    """A row-major array in XLA's memory, on the device that the program runs on."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype


class Call:
    """What XLA passes to a handler; valid until the handler returns."""

    def __init__(self, frame: CallFrame) -> None:
        self._frame = frame

    def arguments(self) -> list[Buffer]:
        """The operands."""
        return _buffers(self._frame.args)

    def results(self) -> list[Buffer]:
        """The memory to fill."""
        return _buffers(self._frame.rets)

    def attributes(self) -> dict[str, str]:
        """The attributes of the call, which must be strings."""
        attrs = self._frame.attrs
        found = {}
        for i in range(attrs.size):
            name = _text(attrs.names[i].contents)
            if attrs.types[i] != STRING:
                raise TypeError(f"attribute {name!r} is no string")
            found[name] = _text(ByteSpan.from_address(attrs.attrs[i]))
        return found

    def stream(self) -> int:
        """The CUstream that work has to be queued on."""
        asked = StreamGet(size(StreamGet), None, self._frame.ctx)
        _ask(self._frame.api.contents, "XLA_FFI_Stream_Get", asked)
        return asked.stream or 0

    def device(self) -> int:
        """Number of the device among those of the process."""
        asked = DeviceOrdinalGet(size(DeviceOrdinalGet), None, self._frame.ctx)
        _ask(self._frame.api.contents, "XLA_FFI_DeviceOrdinal_Get", asked)
        return asked.device_ordinal


def handler(function: Callable[[Call], None]) -> Callable:
    """A handler that calls `function`; has to be kept as long as XLA may call it.

    What `function` raises becomes an error of XLA with type and text of the exception.
    """

    @HANDLER
    def handle(pointer):
        frame = pointer.contents
        try:
            if frame.extension_start and _tell_metadata(frame):
                return None
            if frame.stage != EXECUTE:
                raise RuntimeError(f"called in stage {frame.stage} of XLA's FFI")
            function(Call(frame))
        except BaseException as error:  # nothing may leave a C callback
            return _error(frame.api.contents, f"{type(error).__name__}: {error}")
        return None

    return handle


# A prototype of its own: `jax.ffi.pycapsule` changes that of `ctypes.pythonapi`, which
# others in the process may use with another one.
_new_capsule = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", ctypes.pythonapi))


def capsule(handler: Any) -> object:
    """A handler as `jax.ffi.register_ffi_target` takes it."""
    return _new_capsule(ctypes.cast(handler, ctypes.c_void_p), None, None)


def _tell_metadata(frame: CallFrame) -> bool:
    """Answer if the frame asks for the metadata; whether it does."""
    extension = MetadataExtension.from_address(frame.extension_start)
    if extension.type != METADATA:
        return False
    _refuse_another_layout(frame)
    metadata = extension.metadata.contents
    if metadata.struct_size < size(Metadata):
        raise RuntimeError(f"XLA_FFI_Metadata has {metadata.struct_size} bytes")
    metadata.api_version = Version(size(Version), None, MAJOR, MINOR)
    metadata.traits = 0
    return True


def _refuse_another_layout(frame: CallFrame) -> None:
    api = frame.api.contents
    version = api.api_version
    if version.major_version != MAJOR or version.minor_version < MINOR:
        raise RuntimeError(
            f"XLA's FFI has version {version.major_version}.{version.minor_version}; "
            f"bed knows {MAJOR}.{MINOR} and later {MAJOR}.x"
        )
    for name, found, known in (
        ("XLA_FFI_CallFrame", frame, CallFrame),
        ("XLA_FFI_Args", frame.args, Buffers),
        ("XLA_FFI_Rets", frame.rets, Buffers),
        ("XLA_FFI_Attrs", frame.attrs, Attrs),
    ):
        if found.struct_size != size(known):
            raise RuntimeError(
                f"{name} has {found.struct_size} bytes in XLA, {size(known)} in bed"
            )


def _buffers(struct: Buffers) -> list[Buffer]:
    found = []
    for i in range(struct.size):
        buffer = struct.items[i].contents
        if struct.types[i] != BUFFER or buffer.dtype not in DTYPES:
            raise TypeError(f"argument or result {i} has an unknown type")
        shape = tuple(buffer.dims[: buffer.rank])
        found.append(Buffer(buffer.data or 0, shape, DTYPES[buffer.dtype]))
    return found


def _text(span: ByteSpan) -> str:
    return ctypes.string_at(span.ptr, span.len).decode()


def _error(api: Api, message: str) -> int:
    """An XLA_FFI_Error, which XLA takes over; the message is copied."""
    made = ErrorCreate(size(ErrorCreate), None, message.encode(), INTERNAL)
    return FUNCTION(api.XLA_FFI_Error_Create)(ctypes.addressof(made))


def _ask(api: Api, name: str, asked: Structure) -> None:
    """Call a function of the API; an error that it returns is raised."""
    error = FUNCTION(getattr(api, name))(ctypes.addressof(asked))
    if not error:
        return
    details = ErrorDetails(size(ErrorDetails), None, error)
    # These two return nothing, so that their result has no meaning.
    FUNCTION(api.XLA_FFI_Error_GetMessage)(ctypes.addressof(details))
    message = (details.message or b"").decode()
    destroyed = ErrorDestroy(size(ErrorDestroy), None, error)
    FUNCTION(api.XLA_FFI_Error_Destroy)(ctypes.addressof(destroyed))
    raise RuntimeError(f"{name}: {message}")
