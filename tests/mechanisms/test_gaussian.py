"""The exactly sampled rounded Gaussian: certificate, draw-by-draw oracle, distribution.

The oracles are independent of the code, which has its own integer series: mpmath's erfc and, for
the certificate, an enclosure of the normal cdf in interval arithmetic by another series. Everything
is seeded: the false-alarm rate of a statistical test is the chance that it failed when written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import iv, mp
from numpy.typing import NDArray
from scipy import special, stats

from sparseq.base.errors import ParameterError
from sparseq.mechanisms import MAX_SIGMA, MIN_SIGMA, SeededEntropy, gaussian, rounded_gaussian

SIGMAS = [0.3, 0.5, 1.0, 2.7, 30.0, 1e3 / 3, 2.0**20, 2.0**30, 2.0**40, 2.0**44]
EPSILON = 2.0**-53


class Script:
    """Entropy that plays the given words, then a seeded stream, and counts the words asked for."""

    seeded = True

    def __init__(self, *words: int) -> None:
        self._bytes = b"".join(word.to_bytes(8, "little") for word in words)
        self._rest = SeededEntropy(0)
        self.words_used = 0

    def __call__(self, n_bytes: int) -> bytes:
        self.words_used += n_bytes // 8
        out, self._bytes = self._bytes[:n_bytes], self._bytes[n_bytes:]
        return out + self._rest(n_bytes - len(out))


@pytest.fixture(autouse=True)
def _high_precision() -> Iterator[None]:
    old = mp.prec, iv.prec
    mp.prec, iv.prec = 600, 120
    yield
    mp.prec, iv.prec = old


def upper_tail(k: int | mpmath.mpf, sigma: float) -> mpmath.mpf:
    """P(sigma*Z >= k - 1/2)."""
    return mp.erfc((mp.mpf(k) - 0.5) / (mp.mpf(sigma) * mp.sqrt(2))) / 2


def is_right(k: int, m: int, bits: int, sigma: float) -> bool:
    """Whether floor(sigma*f(u) + 1/2) = k >= 0 for all u in (m, m + 1) * 2^-bits."""
    not_above = upper_tail(k + 1, sigma) <= mp.ldexp(m, -bits)
    return not_above and (k == 0 or upper_tail(k, sigma) >= mp.ldexp(m + 1, -bits))


def assert_right(draws: NDArray[np.int64], words: NDArray[np.int64], sigma: float) -> None:
    mp.prec = 160
    for draw, word in zip(draws.tolist(), words.tolist(), strict=True):
        k, m = (-draw if word < 0 else draw), word & (2**63 - 1)
        assert is_right(k, m, 64, sigma), (draw, word, sigma)


def words_of(seed: int, size: int) -> NDArray[np.int64]:
    return np.frombuffer(SeededEntropy(seed)(8 * size), dtype="<i8").astype(np.int64)


# Draw by draw against mpmath -------------------------------------------------------------------


@pytest.mark.parametrize("sigma", SIGMAS)
def test_every_draw_is_what_mpmath_says(sigma: float) -> None:
    assert_right(rounded_gaussian(sigma, 800, SeededEntropy(5)), words_of(5, 800), sigma)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 1e3 / 3, 2.0**30, 2.0**44])
def test_the_exact_path_alone_gives_the_same_draws(
    sigma: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a margin of 2 sigma, no draw is decided on the fast path."""
    fast = rounded_gaussian(sigma, 400, SeededEntropy(6))
    calls = []
    decide = gaussian._decide
    monkeypatch.setattr(gaussian, "_ERROR_PER_SIGMA", 2.0)
    monkeypatch.setattr(gaussian, "_decide", lambda *a: calls.append(a) or decide(*a))
    exact = rounded_gaussian(sigma, 400, SeededEntropy(6))
    assert len(calls) == 400
    np.testing.assert_array_equal(exact, fast)
    assert_right(exact, words_of(6, 400), sigma)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.7, 1e6 / 7, 2.0**40])
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("extensions", [1, 2, 4])
def test_a_uniform_that_follows_a_boundary_is_extended_until_it_leaves_it(
    sigma: float, k: int, extensions: int
) -> None:
    """u agrees with Phi(-(k - 1/2)/sigma) for 64 bits and more, then is one unit beside it."""
    k = k if sigma < 3 else int(k * sigma)
    bits = 64 * (extensions + 1)
    cell = int(mp.floor(mp.ldexp(upper_tail(k, sigma), bits)))  # holds the boundary
    for m, expected in ((cell - 1, k), (cell + 1, k - 1)):
        words = [m >> shift & (2**64 - 1) for shift in range(bits - 64, -1, -64)]
        entropy = Script(*words)
        assert rounded_gaussian(sigma, 1, entropy).tolist() == [expected]
        assert entropy.words_used == len(words)
        assert rounded_gaussian(sigma, 1, Script(words[0] | 1 << 63, *words[1:])) == [-expected]


@pytest.mark.parametrize("sigma", [0.3, 1.0, 30.0, 2.0**20, 2.0**44])
@pytest.mark.parametrize("zeros", [1, 2, 5])
def test_the_tail_has_no_end(sigma: float, zeros: int) -> None:
    """After words of zeros, u in (0, 2^-64), the draw goes on extending u and is still right."""
    following = [int(w) & (2**64 - 1) for w in words_of(8, 6)]
    entropy = Script(*([0] * zeros), *following)
    draw = int(rounded_gaussian(sigma, 1, entropy)[0])
    bits = 64 * entropy.words_used
    m = int.from_bytes(b"".join(w.to_bytes(8, "big") for w in ([0] * zeros + following)), "big")
    m >>= 64 * (zeros + 6) - bits
    assert bits > 64 * zeros or (zeros == 1 and sigma < 1)
    assert is_right(draw, m, bits, sigma)


def test_all_ones_is_a_negative_number_too_small_to_matter() -> None:
    for sigma in SIGMAS:
        assert rounded_gaussian(sigma, 1, Script(2**64 - 1)).tolist() == [0]


def test_a_cell_with_two_answers_is_undecided_and_one_with_one_answer_is_not() -> None:
    assert gaussian._settle(0, 1, 1.0, 0, math.inf) is None  # u in (0, 1/2): any answer
    assert gaussian._settle(2**62, 64, 1.0, 0, math.inf) == 1  # f(1/4) = 0.67


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    word=st.integers(0, 2**63 - 1) | st.integers(0, 2**49),
    sigma=st.floats(MIN_SIGMA, 100.0) | st.floats(1.0, MAX_SIGMA),
)
def test_any_word_and_any_sigma(word: int, sigma: float) -> None:
    entropy = Script(word)
    draw = int(rounded_gaussian(sigma, 1, entropy)[0])
    if entropy.words_used == 1:
        assert is_right(draw, word, 64, sigma)
    else:
        assert not is_right(draw, word, 64, sigma)  # the extension was needed


# The error bound of the fast path --------------------------------------------------------------


def centre_area(w: mpmath.mpf) -> mpmath.ctx_iv.ivmpf:
    """Encloses Phi(w) - 1/2 = phi(w) sum_n w^(2n+1)/(2n+1)!!, w >= 0. All terms are positive."""
    x = iv.mpf(w)
    square = x * x
    term = total = x
    n = 0
    while 2 * w * w > 2 * n + 3 or term.b > 2.0**-130:
        n += 1
        term = term * square / (2 * n + 1)
        total += term
    rest = term * iv.mpf([0, 1])  # below the geometric series of ratio 1/2
    return (total + rest) * iv.exp(-square / 2) / iv.sqrt(2 * iv.pi)


def quantile_within(area: mpmath.mpf, low: mpmath.mpf, high: mpmath.mpf) -> mpmath.ctx_iv.ivmpf:
    """[low, high], once it is proven to hold the w with Phi(w) - 1/2 = area."""
    assert low <= 0 or centre_area(low).b <= area
    assert centre_area(high).a >= area
    return iv.mpf([low, high])


def taylor_terms(x: mpmath.ctx_iv.ivmpf, degree: int) -> list[mpmath.ctx_iv.ivmpf]:
    """|f^(n)| / n! at f(u) = x, n = 1 ... degree: P_n(x) w'^n / n!."""
    slope = iv.sqrt(2 * iv.pi) * iv.exp(x * x / 2)
    terms, power = [], iv.mpf(1)
    for n, polynomial in enumerate(gaussian._derivative_polynomials(degree), start=1):
        power = power * slope / n
        value = iv.mpf(0)
        for a in reversed(polynomial):
            value = value * x + a
        terms.append(value * power)
    return terms


def segment(i: int) -> tuple[int, int]:
    """Lower end and half width of segment i in units of 2^-64, from the definition."""
    octave, step = divmod(i - 1, 2**gaussian._SPLIT)
    start = 2 ** (63 - gaussian._OCTAVES + octave)
    width = start >> gaussian._SPLIT
    return start + step * width, width // 2


def certify(i: int) -> None:
    """Proves, for segment i: the table's entries, and terms of at most e (2.5 X + 0.125) in sum."""
    centres, table = gaussian._table()
    lower, half = segment(i)
    assert int(centres[i]) == lower + half
    e, half_width = mp.mpf(EPSILON), mp.ldexp(half, -64)
    area = mp.mpf(0.5) - mp.ldexp(2 * (lower + half) + 1, -65)  # at c; exact
    x = refined(float(table[0][i]), area)
    x = quantile_within(area, x - mp.ldexp(1, -90), x + mp.ldexp(1, -90))
    assert abs(iv.mpf(float(table[0][i])) / x - 1) <= e * (1 + mp.ldexp(1, -10))
    roundings = iv.mpf(0)
    for n, a_n in enumerate(taylor_terms(x, gaussian._DEGREE), start=1):
        r_n = 4 if n == 1 else 64
        entry = iv.mpf(mp.ldexp(float(table[n][i]), 64 * n) * (-1) ** n)
        assert abs(entry / a_n - 1) <= r_n * e
        roundings += (3 * n + r_n) * a_n * half_width**n
    areas = [mp.mpf(0.5) - mp.ldexp(end, -64) for end in (lower, lower + 2 * half)]
    at_a, at_b = (float(-special.ndtri(0.5 - float(area))) for area in areas)
    at_a = quantile_within(areas[0], mp.mpf(at_a - 1e-9), mp.mpf(at_a + 1e-9))
    at_b = quantile_within(areas[1], mp.mpf(max(0, at_b - 1e-9)), mp.mpf(at_b + 1e-9))
    derivatives = taylor_terms(at_a, gaussian._DEGREE + 1)
    remainder = derivatives[-1] * half_width ** (gaussian._DEGREE + 1)
    cell = derivatives[0] * mp.ldexp(1, -65)
    rest = x * (1 + mp.ldexp(1, -10)) + roundings + (remainder + cell) / e
    assert rest <= 1.5 * (at_b.a - 1e-9) + 0.125


def refined(start: float, area: mpmath.mpf) -> mpmath.mpf:
    """One Newton step on Phi(x) - 1/2 = area."""
    x = mp.mpf(start)
    residual = area - mp.erf(x / mp.sqrt(2)) / 2
    return x + residual * mp.sqrt(2 * mp.pi) * mp.exp(x * x / 2)


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.deep)])
def test_certificate_of_the_table_and_the_bound(step: int) -> None:
    """Interval arithmetic, every segment: with the docstring's argument, a proof of the bound."""
    mp.prec, iv.prec = 150, 150
    centres, table = gaussian._table()
    assert len(centres) == 1 + gaussian._OCTAVES * 2**gaussian._SPLIT
    assert all(np.isnan(column[0]) for column in table)
    assert gaussian._ERROR_RELATIVE >= 3.75 * EPSILON
    assert gaussian._ERROR_PER_SIGMA >= 0.25 * EPSILON
    for i in range(1, len(centres), step):
        certify(i)


def test_the_bound_holds_where_it_is_tightest() -> None:
    """The first, last and middle cells of all segments, and 2,000 random cells, against mpmath."""
    mp.prec = 160
    ends = [segment(i) for i in range(1, 1 + gaussian._OCTAVES * 2**gaussian._SPLIT)]
    m = [lower + at for lower, half in ends for at in (0, half - 1, half, 2 * half - 1)]
    m += [word & (2**63 - 1) for word in words_of(11, 2000).tolist()]
    for cell, x in zip(m, gaussian._quantile(np.array(m)).tolist(), strict=True):
        if math.isnan(x):
            assert cell < 2**49
            continue
        error = EPSILON * (2.5 * x + 0.125)
        assert mp.erfc((mp.mpf(x) + error) / mp.sqrt(2)) / 2 <= mp.ldexp(cell, -64)
        assert mp.erfc((mp.mpf(x) - error) / mp.sqrt(2)) / 2 >= mp.ldexp(cell + 1, -64)


def test_the_series_stays_within_its_error() -> None:
    """S(h) = sqrt(pi/h)/2 erf(sqrt h) and e^h, for h up to 300 and from 40 to 600 bits."""
    rng = np.random.default_rng(12)
    for _ in range(200):
        numerator, denominator = int(rng.integers(1, 300 * 2**20)), int(rng.integers(2**20, 2**24))
        precision = int(rng.integers(40, 600))
        mp.prec = precision + 1000
        h = mp.mpf(numerator) / denominator
        series, growth, error = gaussian._series(numerator, denominator, precision)
        exact = mp.sqrt(mp.pi / h) / 2 * mp.erf(mp.sqrt(h))
        assert abs(exact - mp.ldexp(series, -precision)) <= mp.ldexp(error, -precision)
        assert 0 <= mp.exp(h) - mp.ldexp(growth, -precision) <= mp.ldexp(error, -precision)


# Distribution ----------------------------------------------------------------------------------


def fit(draws: NDArray[np.int64], sigma: float) -> float:
    """p-value of a chi-square test of the draws against the exact cell probabilities.

    Up to 64 runs of integers, equally probable as far as the lattice allows.
    """
    edges = np.unique(np.floor(sigma * special.ndtri(np.arange(1, 64) / 64) + 0.5)) + 0.5
    if sigma < 1:
        edges = np.arange(-2, 2) + 0.5
    probabilities = np.diff(special.ndtr(np.concatenate([[-np.inf], edges / sigma, [np.inf]])))
    counts = np.bincount(np.searchsorted(edges, draws), minlength=len(probabilities))
    return float(stats.chisquare(counts, probabilities * len(draws)).pvalue)


CHI_SQUARE_SIGMAS = [0.3, 0.5, 1.0, 2.7, 30.0, 2.0**20, 2.0**40]


@pytest.mark.parametrize("sigma", CHI_SQUARE_SIGMAS)
def test_the_distribution_is_right(sigma: float) -> None:
    """200,000 draws; false-alarm rate 1e-6 per sigma."""
    assert fit(rounded_gaussian(sigma, 200_000, SeededEntropy(21)), sigma) > 1e-6


@pytest.mark.parametrize("factor", [0.9, 1.1])
@pytest.mark.parametrize("sigma", CHI_SQUARE_SIGMAS)
def test_a_tenth_more_or_less_sigma_fails(sigma: float, factor: float) -> None:
    """The power of the test above: sigma off by 10 % is rejected at 1e-6, by a wide margin."""
    if sigma * factor < MIN_SIGMA:
        draws, sigma = rounded_gaussian(sigma, 200_000, SeededEntropy(22)), sigma / factor
    else:
        draws = rounded_gaussian(sigma * factor, 200_000, SeededEntropy(22))
    assert fit(draws, sigma) < 1e-12


@pytest.mark.parametrize("sigma", [30.0, 2.0**20, 2.0**40])
def test_low_bits_are_uniform(sigma: float) -> None:
    """Modulo 16 a wide rounded Gaussian is uniform to within 1e-100; false-alarm rate 1e-6."""
    draws = rounded_gaussian(sigma, 200_000, SeededEntropy(23))
    assert stats.chisquare(np.bincount(draws & 15, minlength=16)).pvalue > 1e-6


def test_draws_are_independent_of_their_neighbours() -> None:
    """Correlation at lags 1 to 5, z-test; false-alarm rate 6e-5 (|z| < 4.5 for each lag)."""
    z = rounded_gaussian(2.0**20, 100_000, SeededEntropy(24)) / 2.0**20
    for lag in range(1, 6):
        assert abs(z[lag:] @ z[:-lag]) / math.sqrt(len(z) - lag) < 4.5


# The interface ---------------------------------------------------------------------------------


def test_one_sigma_per_draw() -> None:
    sigmas = np.resize(np.array([*SIGMAS, MIN_SIGMA, MAX_SIGMA]), 20_000)
    draws = rounded_gaussian(sigmas, 20_000, SeededEntropy(31))
    for sigma in (0.3, 2.7, 2.0**30):
        alone = rounded_gaussian(sigma, 20_000, SeededEntropy(31))
        np.testing.assert_array_equal(draws[sigmas == sigma], alone[sigmas == sigma])


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rounded_gaussian(1e5, 5000, SeededEntropy(32))
    monkeypatch.setattr(gaussian, "_CHUNK", 7)
    np.testing.assert_array_equal(whole, rounded_gaussian(1e5, 5000, SeededEntropy(32)))


def test_recorded_draws_never_change() -> None:
    """A golden value: the same entropy gives the same noise, in every version, everywhere."""
    draws = rounded_gaussian(np.array([0.3, 1.0, 1e3, 2.0**40]), 4, SeededEntropy(2021))
    assert draws.tolist() == [0, -1, -137, 1302500633256]


def test_by_default_the_entropy_is_the_systems() -> None:
    """Two sets of 50 draws at sigma 2^30 are equal with probability below 2^-1500."""
    first, second = rounded_gaussian(2.0**30, 50), rounded_gaussian(2.0**30, 50)
    assert (first != second).any()


def test_size_zero_is_empty() -> None:
    assert rounded_gaussian(1.0, 0).shape == (0,)
    assert rounded_gaussian(np.empty(0), 0).dtype == np.int64


@pytest.mark.parametrize("bad", [0.0, -1.0, 0.29, 2.0**44 * 1.001, math.nan, math.inf, -math.inf])
def test_sigma_out_of_range(bad: float) -> None:
    message = (
        rf"sigma is {str(bad).replace('+', '[+]')} lattice steps; it must be from 0.3 to 2\^44"
    )
    for sigma in (bad, np.array([1.0, bad, 2.0])):
        with pytest.raises(ParameterError, match=message):
            rounded_gaussian(sigma, 3)


@pytest.mark.parametrize(
    ("sigma", "size", "message"),
    [
        (1.0, -1, "size is -1"),
        (1.0, 1.5, "size is 1.5"),
        (np.ones(2), 3, r"sigma has shape \(2,\)"),
        (np.ones((3, 1)), 3, r"sigma has shape \(3, 1\)"),
    ],
)
def test_shapes_that_do_not_fit(sigma: object, size: object, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        rounded_gaussian(sigma, size)  # type: ignore[arg-type]
