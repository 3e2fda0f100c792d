"""Certificates: refused when they have expired, taken again when they are renewed."""

from __future__ import annotations

import datetime as dt
import logging
import os
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from sparseq.base.errors import ParameterError
from sparseq.server.certificate import Certificate, expiry

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is missing")


def certificate(folder: Path, first: str, last: str, name: str = "cert") -> tuple[Path, Path]:
    """Make a certificate that is valid between two times, as openssl writes them."""
    file, key = folder / f"{name}.pem", folder / f"{name}.key"
    config, log = folder / "ca.conf", folder / "index.txt"
    log.write_text("")
    config.write_text(
        f"[ca]\ndefault_ca=a\n[a]\ndatabase={log}\nnew_certs_dir={folder}\ndefault_md=sha256\n"
        "rand_serial=yes\nunique_subject=no\npolicy=p\n[p]\ncommonName=supplied\n"
        "[req]\ndistinguished_name=d\n[d]\n"
    )
    request = folder / "request.pem"
    new = [
        "openssl",
        "req",
        "-new",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-keyout",
        str(key),
        "-out",
        str(request),
        "-subj",
        "/CN=localhost",
        "-config",
        str(config),
    ]
    sign = [
        "openssl",
        "ca",
        "-batch",
        "-selfsign",
        "-config",
        str(config),
        "-in",
        str(request),
        "-keyfile",
        str(key),
        "-out",
        str(file),
        "-startdate",
        first,
        "-enddate",
        last,
        "-notext",
    ]
    for command in (new, sign):
        subprocess.run(command, check=True, capture_output=True)
    return file, key


def test_the_end_is_read_as_openssl_reads_it(tmp_path: Path) -> None:
    for last in ("21240229123456Z", "491231235959Z", "20500101000000Z"):
        file, _ = certificate(tmp_path, "20200101000000Z", last)
        text = subprocess.run(
            ["openssl", "x509", "-in", str(file), "-noout", "-enddate"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        seconds = ssl.cert_time_to_seconds(text.strip().partition("=")[2])
        assert expiry(file.read_text()) == dt.datetime.fromtimestamp(seconds, dt.UTC)


def test_one_that_has_expired_is_refused(tmp_path: Path) -> None:
    file, key = certificate(tmp_path, "20200101000000Z", "20200201000000Z")
    with pytest.raises(ParameterError, match=r"has expired, at 2020-02-01 00:00 UTC"):
        Certificate(file, key)


def test_what_is_no_certificate_is_refused(tmp_path: Path) -> None:
    file, key = certificate(tmp_path, "20200101000000Z", "21000101000000Z")
    file.write_text(key.read_text())
    with pytest.raises(ParameterError, match="can't use the certificate"):
        Certificate(file, key)


def test_a_renewed_one_is_taken_and_a_broken_one_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, key = certificate(tmp_path, "20200101000000Z", "21000101000000Z")
    taken = Certificate(file, key)
    context, first = taken.context, taken.expires
    newer, its_key = certificate(tmp_path, "20200101000000Z", "21010101000000Z", "newer")
    os.replace(newer, file)
    with caplog.at_level(logging.INFO, logger="sparseq.server"):
        taken.look()
    assert taken.expires == first, "its key is not there yet"
    assert "as it was before" in caplog.text
    os.replace(its_key, key)
    taken.look()
    assert taken.expires.year == 2101
    assert taken.context is context
    expired, its_key = certificate(tmp_path, "20200101000000Z", "20210101000000Z", "expired")
    os.replace(expired, file)
    os.replace(its_key, key)
    taken.look()
    assert taken.expires.year == 2101


def test_who_runs_it_is_told_before_it_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(days=3)
    file, key = certificate(tmp_path, "20200101000000Z", f"{soon:%Y%m%d%H%M%SZ}")
    taken = Certificate(file, key)
    with caplog.at_level(logging.WARNING):
        taken.look()
        taken.look()
    assert caplog.text.count("ends at") == 1, "once a day"
