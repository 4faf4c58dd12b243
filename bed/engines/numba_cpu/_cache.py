"""Compiled code on disk, as a convenience: what goes wrong there stops no call.

Numba keeps an index file for every function, and a data file for every signature, and
writes each beside its place before it is moved there. Two processes that write at once
can still leave an index that names the data of another signature, and a machine that
fails can leave any file torn. So data says what it is, and is compiled again where it
is not that. Where nothing can be written, every process compiles, after one warning.
"""

import hashlib
import pickle
import warnings
from pathlib import Path

from ._compile import source_digest

try:
    from numba.core.caching import FunctionCache, IndexDataCacheFile
except ImportError:  # of Numba's insides, no version promises anything
    FunctionCache = IndexDataCacheFile = None


def keep_on_disk(dispatcher, name: str) -> None:
    """Let a compiled function be read from disk and written to it where that works.

    Parameters
    ----------
    dispatcher
        Of Numba.
    name : str
        That tells it from others of the same file.
    """
    source = Path(dispatcher.py_func.__code__.co_filename)
    try:
        if FunctionCache is None:
            raise RuntimeError("this version of Numba has other insides")
        dispatcher._cache = _Cache(dispatcher.py_func, name)
    except (RuntimeError, OSError) as error:  # no folder can be written to
        _warn(str(source.parent / "__pycache__"), error)


def kept_on_disk() -> tuple[Path | None, list[Path]]:
    """The folder that code of this engine is read from, and the files in it.

    The folder is Numba's choice, and None where it finds none or has other insides. It
    holds no compiled code of others.
    """
    if FunctionCache is None:
        return None, []
    try:
        implementation = FunctionCache._impl_class(kept_on_disk)
        folder = Path(implementation.locator.get_cache_path())
    except (RuntimeError, OSError):
        return None, []
    found = [*folder.glob("*.nbi"), *folder.glob("*.nbc")]
    return folder, sorted(path for path in found if path.is_file())


# Of the sources that this process has loaded.
_SOURCES = source_digest()

_warned: list[str] = []  # folders; one a process is enough


def _warn(folder: str, error: BaseException) -> None:
    if _warned:
        return
    _warned.append(folder)
    warnings.warn(
        f"bed cannot keep compiled code in {folder}, so every process compiles for "
        "some seconds anew; set NUMBA_CACHE_DIR to a folder that can be written to "
        f"({type(error).__name__}: {error})",
        RuntimeWarning,
        stacklevel=2,
    )


if FunctionCache is not None:

    class _Cache(FunctionCache):
        """Numba's cache of a function, whose failures are not those of its calls."""

        def __init__(self, function, name):
            super().__init__(function)
            self._name = name
            self._cache_file = _Files(
                self._cache_path,
                self._impl.filename_base,
                self._impl.locator.get_source_stamp(),
            )

        def _index_key(self, sig, codegen):
            """Not of what the function closes over: that has another name each time."""
            return sig, codegen.magic_tuple(), self._name, _SOURCES

        def load_overload(self, sig, target_context):
            try:
                return super().load_overload(sig, target_context)
            except Exception:  # a file that is torn, or not Numba's, raises anything
                return None

        def save_overload(self, sig, data):
            try:
                try:
                    super().save_overload(sig, data)
                except OSError:
                    raise
                except Exception:  # the index cannot be read: begin a new one
                    self.flush()
                    super().save_overload(sig, data)
            except Exception as error:
                _warn(self._cache_path, error)

    class _Files(IndexDataCacheFile):
        """An index, and data that carries its key and a digest of itself."""

        def save(self, key, data):
            content = self._dump((key, data))
            super().save(key, (hashlib.sha256(content).digest(), content))

        def load(self, key):
            found = super().load(key)
            if found is None:
                return None
            digest, content = found
            if hashlib.sha256(content).digest() != digest:
                return None
            found_key, data = pickle.loads(content)
            return data if found_key == key else None
