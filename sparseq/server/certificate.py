"""The certificate of a server: loaded at the start, and reloaded whenever its files have changed.

An expired certificate is refused at the start. While the server runs, a renewed certificate is
loaded within a minute, or at SIGHUP, for new connections; an invalid one is not loaded, and the log
reports it. `/metrics` has the time at which the certificate expires.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
import ssl
from pathlib import Path

from sparseq.base.errors import ParameterError

EVERY = 30.0
"""Seconds between two checks of the files."""
SOON = dt.timedelta(days=14)
LOG = logging.getLogger("sparseq.server")


class Certificate:
    """A certificate and its key.

    Args:
        file, key: Their files, PEM.

    Attributes:
        context: The settings of TLS for new connections; it is always this object.
        expires: The end of the certificate's validity, in UTC.

    Raises:
        ParameterError: They can't be used, or the certificate has expired.
    """

    def __init__(self, file: Path, key: Path | None) -> None:
        self._file, self._key = file, key
        self._seen = self._changed()
        self.context, self.expires = self._read()
        self._told: dt.date | None = None

    def _read(self) -> tuple[ssl.SSLContext, dt.datetime]:
        """Return the contents of the files, if they are valid now."""
        made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            made.load_cert_chain(self._file, self._key)
            expires = expiry(self._file.read_text("ascii", "replace"))
        except (OSError, ssl.SSLError, ValueError) as error:
            raise ParameterError(f"can't use the certificate {self._file}: {error}") from None
        if expires <= _now():
            raise ParameterError(
                f"the certificate {self._file} has expired, at {expires:%Y-%m-%d %H:%M} UTC",
                "renew it, and start the server again",
            )
        return made, expires

    def look(self) -> None:
        """Reload the certificate if its files have changed, and warn if it expires soon."""
        if (changed := self._changed()) != self._seen:
            self._seen = changed
            self.take()
        if self.expires - _now() < SOON and self._told != _now().date():
            self._told = _now().date()
            LOG.warning("the certificate %s ends at %s UTC", self._file, f"{self.expires:%F %H:%M}")

    def take(self) -> None:
        """Reload the certificate from its files for new connections, if it is valid."""
        try:
            _, expires = self._read()
            self.context.load_cert_chain(self._file, self._key)
        except (ParameterError, OSError, ssl.SSLError) as error:
            LOG.error("the certificate is as it was before: %s", error)
            return
        self.expires = expires
        LOG.info("the certificate was read again; it ends at %s UTC", f"{expires:%F %H:%M}")

    async def watch(self, stopping: asyncio.Event) -> None:
        """Check the files at intervals, until the server stops."""
        while not stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), EVERY)
            await asyncio.to_thread(self.look)

    def _changed(self) -> list[int]:
        """Return the modification times of the files."""
        files = [self._file] if self._key is None else [self._file, self._key]
        found = []
        for file in files:
            with contextlib.suppress(OSError):  # it is being replaced
                found.append(file.stat().st_mtime_ns)
        return found


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def expiry(pem: str) -> dt.datetime:
    """Return the end of the validity of the first certificate in a PEM file (RFC 5280, 4.1.2.5).

    Raises:
        ValueError: It has none.
    """
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    if begin not in pem or end not in pem:
        raise ValueError("it has no certificate in PEM")
    first = begin + pem.partition(begin)[2].partition(end)[0] + end
    body = _parts(_parts(ssl.PEM_cert_to_DER_cert(first))[0][1])[0][1]
    fields = [part for part in _parts(body) if part[0] != _VERSION]
    kind, until = _parts(fields[3][1])[1]  # after number, algorithm and issuer: from, until
    text = until.decode("ascii")
    if kind == _UTC_TIME:  # of two digits, from 1950 to 2049
        text = ("19" if text >= "50" else "20") + text
    return dt.datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=dt.UTC)


_VERSION, _UTC_TIME = 0xA0, 0x17  # tags of DER


def _parts(data: bytes) -> list[tuple[int, bytes]]:
    """Return the values of a sequence in DER, each with its tag."""
    found, at = [], 0
    while at < len(data):
        tag, size, at = data[at], data[at + 1], at + 2
        if size & 0x80:
            size, at = int.from_bytes(data[at : at + (size & 0x7F)]), at + (size & 0x7F)
        found.append((tag, data[at : at + size]))
        at += size
    return found
