"""Compiled loops of `networks.network` over images, channels last: pooling, gradients of kernels.

They take one image, or one user, at a time: the result of a row is the same to the bit wherever the
row lies in a batch, and whatever the other rows are.
"""

from __future__ import annotations

import numba
import numpy as np

_Size = np.uintp  # never negative: Numba need not ask whether an index counts from the end


@numba.njit(nogil=True, cache=True)
def pool(z, channels, kernel, stride, out, won):  # type: ignore[no-untyped-def]
    """Fill out with the largest of each window and of 0, and won with its number in the window.

    Args:
        z, out, won: (n, height, width · channels); won is uint8, and 255 where 0 is the largest.
        channels: How many.
        kernel, stride: (height, width) both, kernels of 254 places at most.

    The first of equals wins, the last NaN above all, as in PyTorch.
    """
    runs, length = _runs(out.shape[2], channels, stride)
    for i in range(len(z)):
        for r in range(out.shape[1]):
            out[i, r] = 0.0
            won[i, r] = 255
            for down in range(kernel[0]):
                row = z[i, r * stride[0] + down]
                for right in range(kernel[1]):
                    number = np.uint8(down * kernel[1] + right)
                    for run in range(runs):
                        start = (run * stride[1] + right) * channels
                        new = row[start : start + length]
                        best = out[i, r, run * length : (run + 1) * length]
                        which = won[i, r, run * length : (run + 1) * length]
                        for t in range(length):
                            better = new[t] > best[t] or new[t] != new[t]
                            best[t] = new[t] if better else best[t]
                            which[t] = number if better else which[t]


@numba.njit(nogil=True, cache=True)
def unpool(g, won, channels, kernel, stride, gz):  # type: ignore[no-untyped-def]
    """Fill gz with the gradient at what `pool` was given, of the gradient g at what it made."""
    runs, length = _runs(g.shape[2], channels, stride)
    for i in range(len(g)):
        gz[i] = 0.0
        for r in range(g.shape[1]):
            for down in range(kernel[0]):
                row = gz[i, r * stride[0] + down]
                for right in range(kernel[1]):
                    number = np.uint8(down * kernel[1] + right)
                    for run in range(runs):
                        start = (run * stride[1] + right) * channels
                        to = row[start : start + length]
                        some = g[i, r, run * length : (run + 1) * length]
                        which = won[i, r, run * length : (run + 1) * length]
                        for t in range(length):
                            to[t] += some[t] if which[t] == number else np.float32(0.0)


@numba.njit(nogil=True, inline="always")
def _runs(width, channels, stride):  # type: ignore[no-untyped-def]
    """Return the number and the length of the runs into which a row of the output is split."""
    return (1, width) if stride[1] == 1 else (width // channels, channels)


@numba.njit(nogil=True, cache=True)
def correlate(a, g, around, stride, places, run, out, squares):  # type: ignore[no-untyped-def]
    """Fill out with each user's gradient of a convolution's kernel, and squares with its square.

    Args:
        a: (users, records, height, width · channels), the layer's input.
        g: (users, records, height, width, outputs), of the loss at its output.
        around: Zeros above and below, and left and right, in numbers of a row.
        stride: Down in rows, right in numbers of a row.
        places: Where the runs of numbers that one place of the output sees start in the image with
            its zeros, for the first place.
        run: How many numbers are in each.
        out: (users, outputs, runs · run).
        squares: float64 (users,), the sums of squares.
    """
    users, records, height, width = a.shape
    down, right = g.shape[2:4]
    image = np.zeros((height + 2 * around[0], width + 2 * around[1]), a.dtype)
    seen = np.empty((records, down * right, len(places) * run), a.dtype)
    for i in range(users):
        for k in range(records):
            for row in range(height):
                image[around[0] + row, around[1] : around[1] + width] = a[i, k, row]
            _patches(image, down, right, stride, places, run, seen[k])
        positions = records * down * right
        np.dot(g[i].reshape(positions, -1).T, seen.reshape(positions, -1), out[i])
        squares[i] = _square(out[i].reshape(-1))


@numba.njit(nogil=True, cache=True)
def _patches(image, down, right, stride, places, run, seen):  # type: ignore[no-untyped-def]
    """Copy what each place of the output sees."""
    source, target = image.reshape(-1), seen.reshape(-1)
    below, beside, length = _Size(stride[0] * image.shape[1]), _Size(stride[1]), _Size(run)
    to = _Size(0)
    for r in range(_Size(down)):
        for c in range(_Size(right)):
            for k in range(_Size(len(places))):
                start = r * below + c * beside + _Size(places[k])
                for t in range(length):
                    target[to + t] = source[start + t]
                to += length


@numba.njit(nogil=True, cache=True, fastmath={"reassoc"})
def _square(row):  # type: ignore[no-untyped-def]
    """Return the sum of squares, added up in float64 in an order of its own."""
    total = 0.0
    for j in range(len(row)):
        total += np.float64(row[j]) * np.float64(row[j])
    return total
