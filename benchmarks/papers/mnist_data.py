"""The MNIST digits (LeCun, Cortes & Burges 1998): 60,000 to train on, 10,000 to test.

The files are train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz and the two of t10k, from
https://ossci-datasets.s3.amazonaws.com/mnist/ (first at http://yann.lecun.com/exdb/mnist/), as they
are or unpacked. They are not part of this project.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SOURCE = "https://ossci-datasets.s3.amazonaws.com/mnist/"


def digits(folder: Path, part: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return images (n, 28, 28), 0 to 255, and labels (n,); part is "train" or "t10k".

    Raises:
        FileNotFoundError: A file does not exist; the message has its source.
        ValueError: A file is not one of MNIST's.
    """
    return _idx(folder, f"{part}-images-idx3-ubyte", 3), _idx(
        folder, f"{part}-labels-idx1-ubyte", 1
    )


def unit_rows(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return one row an image, scaled to length 1: a matter of that image alone."""
    rows = images.reshape(len(images), -1).astype(np.float64)
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0))


def _idx(folder: Path, name: str, dimensions: int) -> NDArray[np.uint8]:
    path = next((p for p in (folder / f"{name}.gz", folder / name) if p.is_file()), None)
    if path is None:
        raise FileNotFoundError(
            f"there is no {name} or {name}.gz in {folder}; it comes from {SOURCE}"
        )
    content = path.read_bytes()
    data = gzip.decompress(content) if path.suffix == ".gz" else content
    head = np.frombuffer(data, ">u4", count=1 + dimensions)
    if head[0] != 0x800 + dimensions:
        raise ValueError(f"{path} is no file of MNIST's: its first number is {head[0]:#x}")
    return np.frombuffer(data, np.uint8, offset=4 * len(head)).reshape(head[1:].astype(int))
