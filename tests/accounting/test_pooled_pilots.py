"""Pooled pilots: a mean of released pilots, its scale and its cut."""

from __future__ import annotations

import math

import numpy as np

from sparseq.accounting.pilots import CELLS
from sparseq.accounting.pilots.choice import C_STEPS
from sparseq.accounting.pilots.pooled_pilots import POOLED, Pool

SD = 14.0


def noised(g: np.random.Generator, people: np.ndarray) -> np.ndarray:
    return people + g.normal(0, SD, CELLS)


def test_only_the_latest_count() -> None:
    pool = Pool()
    for k in range(POOLED + 5):
        pool = pool.with_pilot(np.full(CELLS, float(k)))
    assert [pilot[0] for pilot in pool.pilots] == [float(k) for k in range(5, POOLED + 5)]


def test_the_cut_of_the_pool_is_nearer_to_the_truth_than_that_of_one() -> None:
    people = np.zeros(CELLS)
    people[:6] = 900, 250, 80, 25, 8, 3
    edges = np.ldexp(1.0, np.arange(CELLS))
    g, one_off, all_off = np.random.default_rng(4), [], []
    for _ in range(6):
        pool, single = Pool(), Pool().with_pilot(noised(g, people))
        for _ in range(28):
            pool = pool.with_pilot(noised(g, people))
        asked = pool.question(4, 7.0, 1.0, 0)
        steps = 4 * C_STEPS
        share = 1.1 * float(people @ np.maximum(edges - 4, 0)) / float(people @ edges)
        true = share / (1 - share)
        one_off.append(abs(math.log(single.cut(asked, SD, steps).growth / true)))
        all_off.append(abs(math.log(pool.cut(asked, SD, steps).growth / true)))
    assert np.mean(all_off) < 0.5 * np.mean(one_off)
    assert np.mean(all_off) < 0.3


def test_the_scale_grows_with_what_a_node_is_added_up_to() -> None:
    people = np.zeros(CELLS)
    people[:6] = 900, 250, 80, 25, 8, 3
    pool = Pool().with_pilot(people)
    scales = [pool.scale(pool.question(4, 7.0, price, 0), SD) for price in (0.1, 1.0, 28.0)]
    assert scales == sorted(scales)
    assert scales[0] < scales[-1]
