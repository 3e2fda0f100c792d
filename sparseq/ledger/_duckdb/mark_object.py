"""A high-water mark in an object store: S3 and its like, Google's, Azure's.

In place of a lock there is a condition on each write (`If-None-Match`, then `If-Match`): it is
refused unless the object is as this copy of the store has read or written it last. So the writes of
a mark are one chain, and the claim of `mark` holds: the last writer W had all that the one before
had told of. Two copies may be open at once; the first that is asked shuts the other out, whose next
answer does not leave.
"""

from __future__ import annotations

import datetime as dt
import importlib.util
import secrets
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sparseq.base.errors import ParameterError, StoreError
from sparseq.ledger._duckdb.record import RECORD_BYTES, Record

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_PATIENCE = dt.timedelta(seconds=20)
"""So long is a request tried again; answers wait for it."""
SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")


class MarkObject:
    """A mark in an object; whoever writes it has read it before, and nobody in between.

    Args:
        place: Its address, such as `s3://bucket/shop.mark`. Credentials are found where the object
            store's own tools look for them, in the environment, and are no part of it.
        store: Where it lies; by default at that address.

    Raises:
        ParameterError: It is no address of an object, or has credentials in it.
    """

    def __init__(self, place: str, store: ObjectStore | None = None) -> None:
        parts = urlsplit(place)
        self.place, self._key = place, parts.path.strip("/")
        odd = parts.query or "@" in parts.netloc or parts.scheme not in SCHEMES
        if odd or not parts.netloc or not self._key:
            raise ParameterError(
                f"{parts.scheme}://{parts.hostname or ''}{parts.path} is no address of a mark",
                "write it as s3://BUCKET/NAME; credentials are found in the environment",
            )
        self._store = store or _opened(f"{parts.scheme}://{parts.netloc}")
        self._version: dict[str, str] | None = None
        self._nonce = secrets.token_hex(16).encode()  # whose writes they are
        self.name = place

    def exists(self) -> bool:
        """Tell whether anything is there."""
        return self._read() is not None

    def take(self) -> Record | None:
        """Return what the mark says; None: it is not there, or is no mark."""
        data = self._read()
        found = None if data is None else Record.from_bytes(data[:RECORD_BYTES])
        if found is None:
            self._version = None  # something else: it is not written over
        return found

    def write(self, record: Record) -> None:
        """Say how far the store has come, durably, if nobody else has meanwhile.

        Raises:
            StoreError: Another copy of the store has, or it can't be written: nothing may leave.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        data = record.to_bytes() + self._nonce
        condition: Any = self._version or "create"
        try:
            self._version = _version(obstore.put(self._store, self._key, data, mode=condition))
        except (AlreadyExistsError, PreconditionError):
            if self._read() == data:  # an earlier try of this write has arrived after all
                return
            raise StoreError(
                f"the store's high-water mark, {self.place}, was written by another copy of it",
                "only the copy that was asked last opens: go on with that one",
            ) from None
        except Exception as error:
            raise self._failed("written", error) from None

    def release(self) -> None:
        """Let go of it: there is no lock."""

    def _read(self) -> bytes | None:
        """Return what is there, and remember which version of it was read."""
        import obstore

        try:
            found = obstore.get(self._store, self._key)
            data, self._version = bytes(found.bytes()), _version(found.meta)
        except FileNotFoundError:
            self._version = None
            return None
        except Exception as error:
            raise self._failed("read", error) from None
        return data

    def _failed(self, what: str, error: Exception) -> StoreError:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return StoreError(
            f"the store's high-water mark, {self.place}, can't be {what}: {lines[0][:200]}",
            "no answer leaves without it: see that it can be, and open the store again",
        )


def _opened(address: str) -> ObjectStore:
    if importlib.util.find_spec("obstore") is None:
        raise ParameterError(
            f"for a mark at {address} another package is needed", "pip install 'sparseq[objects]'"
        )
    from obstore.store import from_url

    return from_url(address, retry_config={"retry_timeout": _PATIENCE})


def _version(of: Any) -> dict[str, str]:
    """Return what an object's version is told by: what the object store has said of it."""
    return {k: of[k] for k in ("e_tag", "version") if of.get(k) is not None}
