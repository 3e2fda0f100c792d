"""The image and the compose file as they are shipped; there is no Docker in a test.

The Dockerfile's own steps are run as root in a copy of this machine's files, and the compose file's
command as the image's user, with the volumes and the read-only files that it asks for.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deploy.shipped import KEPT, ROOT, can_isolate, compose, instruction, listens, running

import sparseq
from sparseq.server.open_connections import MOST, OTHER_FILES
from sparseq.server.tokens import Role, Tokens


def volumes() -> list[str]:
    """Return the folders that the compose file keeps."""
    return [volume.partition(":")[2] for volume in compose()["services"]["sparseq"]["volumes"]]


def scratch() -> list[str]:
    """Return the folders that are lost when the container ends."""
    return [folder.partition(":")[0] for folder in compose()["services"]["sparseq"]["tmpfs"]]


def test_what_the_container_takes_is_limited() -> None:
    service = compose()["services"]["sparseq"]
    assert service["ulimits"]["nofile"]["soft"] >= MOST + OTHER_FILES
    assert service["mem_limit"]
    assert all(":size=" in folder for folder in service["tmpfs"])


def test_volumes_are_the_users_own() -> None:
    """Docker gives a new volume the owner of the image's folder; without one it is root's."""
    (made,) = re.findall(r"install -d -o (\w+) -g \w+ -m 700 ([^&]+)", instruction("RUN"))
    assert made[0] == instruction("USER")
    assert set(volumes()) <= set(made[1].split())
    assert set(volumes()) <= set(re.findall(r'"([^"]+)"', instruction("VOLUME")))
    assert instruction("WORKDIR") in volumes()


def test_the_command_writes_to_volumes_alone() -> None:
    service = compose()["services"]["sparseq"]
    assert service["read_only"] is True
    paths = [word for word in service["command"] if word.startswith("/")]
    paths += [value for _, value in re.findall(r"(\w+)=(/\S+)", instruction("ENV"))]
    for path in paths:
        assert path.startswith((*volumes(), *scratch())), path


@pytest.mark.deep
@pytest.mark.skipif(not can_isolate(), reason="needs root, and namespaces")
def test_the_image_is_built_and_serves(tmp_path: Path) -> None:
    """It also installs what the image installs, with its constraints: a minute of the network."""
    store = tmp_path / "store.sparseq"
    rows = pa.table({"who": [*range(300)], "v": [*range(300)]})
    sparseq.create(store, {"t": rows}, user="who", seed=1).close()
    token = Tokens.beside(store).create("ada", Role.ANALYST)
    curator = Tokens.beside(store).create("eve", Role.CURATOR)
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (tmp_path / "files").write_text(files)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    service, user = compose()["services"]["sparseq"], instruction("USER")
    word = f"127.0.0.1:{port}"
    command = [word if part.endswith(":8080") else part for part in service["command"]]
    steps = [
        f"{sys.executable} -m venv /image",
        "export PATH=/image/bin:$PATH PIP_COMPILE=0",
        "install -d /source",
        f"cd {ROOT}",
        f"xargs -a {tmp_path}/files cp --parents -t /source",
        "cd /",
        instruction("RUN"),
        f"install -d /given; cp {store}* /given",
        *(f"chmod a+x {p}" for p in Path(sys.executable).resolve().parents),
    ]
    given = {
        "kept": KEPT,
        "steps": "; ".join(steps),
        "user": user,
        "volumes": [*volumes(), *scratch()],
        "after": f"cp /given/* /data; chown {user} /data/*; chmod 1777 {scratch()[0]}",
        "command": ["/image/bin/sparseq", *command],
        "environment": {"PATH": os.environ["PATH"], **dict([instruction("ENV").split("=")])},
    }
    log = tmp_path / "log"
    with running(given, log) as server:
        listens(server, log, 400)
        with sparseq.connect(f"http://127.0.0.1:{port}", token=token) as con:
            assert con.sql("SELECT count(*) AS n FROM t WHERE v < 100").pl().height == 1
        with sparseq.connect(f"http://127.0.0.1:{port}", token=curator) as con:
            con.post("/v1/backup", b"{}")
        server.send_signal(getattr(signal, instruction("STOPSIGNAL")))
        assert server.wait(90) == 0, log.read_text()
