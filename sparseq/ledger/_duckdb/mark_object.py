"""A high-water mark in an object store: Amazon S3 and compatible ones, Google's, Azure's.

A condition on each write replaces the lock (`If-None-Match`, then `If-Match`): a write is refused
unless the object is the version that this copy of the store read or wrote last. So the writes of a
mark are one chain, and the claim of `mark` holds: the last writer W had all that the one before had
counted. Two copies may be open at once; the first that answers a query shuts the other out, and the
other's next answer is not returned.
"""

from __future__ import annotations

import datetime as dt
import importlib.util
import secrets
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sparseq.base.errors import ParameterError, StoreError
from sparseq.ledger._duckdb.progress_record import RECORD_BYTES, Record

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_PATIENCE = dt.timedelta(seconds=20)
"""The time for which a failed request is repeated; answers wait for it."""
SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")


class MarkObject:
    """A mark in an object; a write fails if another process wrote after this one's last read.

    Args:
        place: The address, such as `s3://bucket/shop.mark`. It contains no credentials: they come
            from the environment, as for the object store's own tools.
        store: The object store; by default that of the address.

    Raises:
        ParameterError: The address names no object, or contains credentials.
    """

    def __init__(self, place: str, store: ObjectStore | None = None) -> None:
        parts = urlsplit(place)
        self.place, self._key = place, parts.path.strip("/")
        odd = parts.query or "@" in parts.netloc or parts.scheme not in SCHEMES
        if odd or not parts.netloc or not self._key:
            raise ParameterError(
                f"{parts.scheme}://{parts.hostname or ''}{parts.path} is not a valid address of a"
                " mark",
                "write it as s3://BUCKET/NAME; credentials come from the environment",
            )
        self._store = store or _open(f"{parts.scheme}://{parts.netloc}")
        self._version: dict[str, str] | None = None
        self._nonce = secrets.token_hex(16).encode()  # identifies this process's writes
        self.name = place

    def exists(self) -> bool:
        """Tell whether the object exists."""
        return self._read() is not None

    def take(self) -> Record | None:
        """Return the record in the mark; None: there is no object, or it is no mark."""
        data = self._read()
        record = None if data is None else Record.from_bytes(data[:RECORD_BYTES])
        if record is None:
            self._version = None  # another kind of object: it is not overwritten
        return record

    def write(self, record: Record) -> None:
        """Write the store's progress durably, unless another process wrote it since.

        Raises:
            StoreError: Another copy of the store wrote it, or the write failed: no answer may be
                returned.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        data = record.to_bytes() + self._nonce
        condition: Any = self._version or "create"
        try:
            self._version = _version(obstore.put(self._store, self._key, data, mode=condition))
        except (AlreadyExistsError, PreconditionError):
            if self._read() == data:  # an earlier attempt of this write succeeded after all
                return
            raise StoreError(
                f"the store's high-water mark, {self.place}, was written by another copy of it",
                "only the copy that answered last can be opened: continue with that one",
            ) from None
        except Exception as error:
            raise self._failure("written", error) from None

    def release(self) -> None:
        """Release the mark: there is no lock."""

    def _read(self) -> bytes | None:
        """Return the object's bytes, and keep the version for the next write."""
        import obstore

        try:
            stored = obstore.get(self._store, self._key)
            data, self._version = bytes(stored.bytes()), _version(stored.meta)
        except FileNotFoundError:
            self._version = None
            return None
        except Exception as error:
            raise self._failure("read", error) from None
        return data

    def _failure(self, verb: str, error: Exception) -> StoreError:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return StoreError(
            f"the store's high-water mark, {self.place}, can't be {verb}: {lines[0][:200]}",
            "no answer is returned without it: make it writable, and open the store again",
        )


def _open(address: str) -> ObjectStore:
    if importlib.util.find_spec("obstore") is None:
        raise ParameterError(
            f"a mark at {address} needs an optional package", "pip install 'sparseq[objects]'"
        )
    from obstore.store import from_url

    return from_url(address, retry_config={"retry_timeout": _PATIENCE})


def _version(of: Any) -> dict[str, str]:
    """Return the version of an object, as the object store reported it."""
    return {k: of[k] for k in ("e_tag", "version") if of.get(k) is not None}
