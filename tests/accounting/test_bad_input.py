"""Every public number of `accounting` and `mechanisms`: a bad one is refused by value and range.

The table names a valid call of each public function, class and method, and for each of its numbers
what must be refused. Two tests hold the table to the public interface itself, so that neither a new
function nor a new argument goes unchecked.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import sparseq.accounting
import sparseq.mechanisms
import sparseq.papers
from sparseq.accounting import Budget, Price, charge, filters, gdp, rdp, zcdp
from sparseq.accounting import accuracy as acc
from sparseq.accounting import odometers as odo
from sparseq.accounting.strategies import Strategy
from sparseq.base.errors import ParameterError
from sparseq.mechanisms import entropy, gaussian, laplace, quantile, randomized_response
from sparseq.mechanisms import sparse_vector as sv
from sparseq.mechanisms import toeplitz_counter as toeplitz
from sparseq.mechanisms import tree_counter as tree
from sparseq.networks import sgd_account as sgd

NAN, INF = math.nan, math.inf
NUMBER = (NAN, INF, -1.5, "1", None)
POSITIVE = (*NUMBER, 0.0)
ORDER = (*NUMBER, 1.0, 0.5, 0.0)
DELTA = (*NUMBER, 0.0, 1.0, 2.0)
BETA = (*NUMBER, 0.0, 2.0)
SHARE = (*NUMBER, 1.5)
WHOLE = (NAN, INF, -1, 1.5, "1", None)
COUNT = (*WHOLE, 0)
CURVE = ([1.0, NAN], [1.0, -1.5])
ANY_CURVE = (*CURVE, [1.0])
CHARGES = (np.array([0.1, NAN]), np.array([0.1, -1.5]), np.array([0.1, INF]), np.zeros(3))
TICKS = (np.array([1, 0]), np.array([1, 9]), np.array([1, -1]))

two_orders = (2.0, 8.0)
zcdp_filter = partial(filters.IndividualFilter, filters.ZcdpRule(1.0), 2)
one_filter = partial(filters.Filter, filters.ZcdpRule(1.0))
orders_rule = filters.RdpOrdersRule(two_orders, (1.0, 2.0))
individual = partial(odo.IndividualOdometer, 2, 2.0, 0.5)
lecuyer = partial(odo.LecuyerOdometer, 1e-6, two_orders)
account = partial(sgd.TrajectoryAccount, 2, 0.01, 1.0, levels=2, orders=two_orders)
response = randomized_response.RandomizedResponse(Fraction(3))
laplace_design = sv.LaplaceSparseVector(2, 20.0, 40.0)
gaussian_design = sv.GaussianSparseVector(2, 20.0, 40.0, queries=8)
quantiles = quantile.Quantiles([1.0, 2.0], sigma=10.0)
counter = partial(tree.TreeCounter, 8, 2.0)
ints = partial(np.array, dtype=np.int64)
norms = ints([1, 2])
target = {"epsilon": (1.0, (*POSITIVE,)), "delta": (1e-6, DELTA)}
rho_filter = {"rho": (0.1, NUMBER)}

# name: (what is called, {argument: (a valid value, what must be refused)})
CALLS: dict[str, tuple[Callable[..., Any], dict[str, tuple[Any, tuple[Any, ...]]]]] = {
    "budget.Budget": (
        Budget,
        {"kappa": (0.5, POSITIVE), "norm_budget": (9.0, POSITIVE), "keys_delta": (0.0, NUMBER)},
    ),
    "budget.Budget.from_epsilon_delta": (
        Budget.from_epsilon_delta,
        {
            "epsilon": (1.0, (*NUMBER, 0.0, 1e9)),
            "delta": (1e-6, DELTA),
            "norm_budget": (9.0, POSITIVE),
            "keys_delta": (1e-8, (*NUMBER, 1e-6)),
        },
    ),
    "budget.Budget.epsilon": (Budget(0.5, 9).epsilon, {"delta": (1e-6, DELTA)}),
    "budget.Budget.epsilon_zcdp": (Budget(0.5, 9).epsilon_zcdp, {"delta": (1e-6, DELTA)}),
    "budget.Budget.worst_case_queries": (
        Budget(0.5, 9).worst_case_queries,
        {"scale": (1.0, POSITIVE), "sigma": (3.0, (NAN, INF, -1.5, 0.0, "1"))},
    ),
    "budget.Budget.worst_case_sigma": (
        Budget(0.5, 9).worst_case_sigma,
        {"queries": (3, COUNT), "scale": (1.0, POSITIVE)},
    ),
    "charge.Price.of": (
        partial(Price.of, budget=Budget(0.5, 9)),
        {"sigma": (3.0, POSITIVE), "granularity": (1.0, (*POSITIVE, 3.0))},
    ),
    "charge.Price.charge": (
        Price.of(3.0, 1.0, Budget(0.5, 9)).charge,
        {"squared_norms": (norms, (np.ones(2),))},
    ),
    "charge.Price.charge_one": (
        Price.of(3.0, 1.0, Budget(0.5, 9)).charge_one,
        {"squared_norm": (4, WHOLE)},
    ),
    "charge.sigma_for_scale": (
        partial(charge.sigma_for_scale, budget=Budget(0.5, 9)),
        {"scale": (1.0, POSITIVE)},
    ),
    "charge.sigma_for_price": (
        partial(charge.sigma_for_price, budget=Budget(0.5, 9)),
        {"scale": (1.0, POSITIVE), "price": (2.0, POSITIVE), "measures": (1, COUNT)},
    ),
    "charge.budget_units": (charge.budget_units, {"norm_budget": (1.5, (*NUMBER, 1e9))}),
    "charge.round_up": (charge.round_up, {"charges": (norms, (np.ones(2), ints([1, -1])))}),
    "charge.add_charges": (
        charge.add_charges,
        {"charges": (norms, (np.ones(2),)), "more": (norms, (np.ones(2),))},
    ),
    "accuracy.corollary_bound": (
        acc.corollary_bound,
        {
            "sigma": (1.0, POSITIVE),
            "coordinates": (2, COUNT),
            "beta": (0.05, (*DELTA,)),
            "lattice_step": (1.0, NUMBER),
        },
    ),
    "accuracy.simultaneous_bound": (
        acc.simultaneous_bound,
        {
            "sigma": (1.0, POSITIVE),
            "coordinates": (2, COUNT),
            "beta": (0.05, (*DELTA,)),
            "lattice_step": (1.0, NUMBER),
        },
    ),
    "accuracy.comparison_bound": (
        acc.comparison_bound,
        {"scale": (5.0, POSITIVE), "comparisons": (9, COUNT), "beta": (0.05, DELTA)},
    ),
    "accuracy.sigma_for_accuracy": (
        acc.sigma_for_accuracy,
        {
            "accuracy": (9.0, (*POSITIVE, 0.25)),
            "coordinates": (2, COUNT),
            "beta": (0.05, DELTA),
            "lattice_step": (1.0, (*NUMBER, 50.0)),
        },
    ),
    "gdp.delta": (gdp.delta, {"epsilon": (1.0, NUMBER), "mu": (1.0, POSITIVE)}),
    "gdp.epsilon": (gdp.epsilon, {"delta": (1e-6, DELTA), "mu": (1.0, (*POSITIVE, 1e200))}),
    "gdp.best_guess": (gdp.best_guess, {"mu": (1.0, POSITIVE)}),
    "gdp.belief": (
        gdp.belief,
        {"before": (0.5, DELTA), "mu": (1.0, (*POSITIVE, 1e200)), "luck": (0.5, DELTA)},
    ),
    "gdp.mu": (gdp.mu, {"epsilon": (1.0, (*NUMBER, 1e308)), "delta": (1e-6, DELTA)}),
    "zcdp.delta": (zcdp.delta, {"epsilon": (1.0, NUMBER), "rho": (1.0, POSITIVE)}),
    "zcdp.epsilon": (zcdp.epsilon, {"delta": (1e-6, DELTA), "rho": (1.0, (*POSITIVE, 1e308))}),
    "zcdp.rho": (zcdp.rho, {"epsilon": (1.0, (*NUMBER, 1e308)), "delta": (1e-6, DELTA)}),
    "zcdp.epsilon_simple": (
        zcdp.epsilon_simple,
        {"delta": (1e-6, DELTA), "rho": (1.0, (*POSITIVE, 1e308))},
    ),
    "rdp.gaussian": (rdp.gaussian, {"sigma": (1.0, POSITIVE), "orders": (2.0, ORDER)}),
    "rdp.laplace": (rdp.laplace, {"scale": (1.0, POSITIVE), "orders": (2.0, ORDER)}),
    "rdp.randomized_response": (
        rdp.randomized_response,
        {"p": (0.75, (*POSITIVE, 1.0, 1.5)), "orders": (2.0, ORDER)},
    ),
    "rdp.pure": (rdp.pure, {"epsilon": (1.0, NUMBER), "orders": (2.0, ORDER)}),
    "rdp.subsampled_gaussian": (
        rdp.subsampled_gaussian,
        {"rate": (0.1, SHARE), "sigma": (1.0, POSITIVE), "orders": (2.0, ORDER)},
    ),
    "rdp.compose": (
        lambda curves, orders=2.0: rdp.compose(curves)(orders),
        {"curves": (partial(rdp.gaussian, 1.0), (lambda a: -a, lambda a: a * NAN))},
    ),
    "rdp.repeat": (
        lambda curve, times: rdp.repeat(curve, times)(np.array([2.0])),
        {
            "curve": (partial(rdp.gaussian, 1.0), (lambda a: -a, lambda a: a[:0])),
            "times": (2, WHOLE),
        },
    ),
    "rdp.evaluate": (
        rdp.evaluate,
        {
            "curve": (partial(rdp.gaussian, 1.0), (lambda a: -a, lambda a: a * NAN)),
            "orders": (2.0, ORDER),
        },
    ),
    "rdp.epsilon": (
        rdp.epsilon,
        {
            "rdp": ([1.0, 2.0], ANY_CURVE),
            "orders": (two_orders, ([2.0, 1.0], [2.0, NAN])),
            "delta": (1e-6, DELTA),
        },
    ),
    "rdp.epsilons": (
        rdp.epsilons,
        {
            "rdp": ([[1.0, 2.0]], ([[1.0, NAN]], [[1.0, -1.5]], [[1.0]])),
            "orders": (two_orders, ([2.0, 1.0], [2.0, NAN])),
            "delta": (1e-6, DELTA),
        },
    ),
    "rdp.epsilon_mironov": (
        rdp.epsilon_mironov,
        {
            "rdp": ([1.0, 2.0], ANY_CURVE),
            "orders": (two_orders, ([2.0, 1.0], [2.0, INF])),
            "delta": (1e-6, DELTA),
        },
    ),
    "rdp.delta": (
        rdp.delta,
        {
            "rdp": ([1.0, 2.0], ANY_CURVE),
            "orders": (two_orders, ([2.0, 1.0], [2.0, INF])),
            "epsilon": (1.0, NUMBER),
        },
    ),
    "rdp.checked_orders": (rdp.checked_orders, {"orders": (2.0, ORDER)}),
    "rdp.checked_rdp": (
        rdp.checked_rdp,
        {"rdp": ([1.0, 2.0], ANY_CURVE), "shape": ((2,), ((3,),))},
    ),
    "filters.ZcdpRule": (filters.ZcdpRule, {"rho": (1.0, POSITIVE)}),
    "filters.ZcdpRule.for_target": (
        filters.ZcdpRule.for_target,
        {"epsilon": (1.0, NUMBER), "delta": (1e-6, DELTA)},
    ),
    "filters.GdpRule": (filters.GdpRule, {"mu": (1.0, POSITIVE)}),
    "filters.GdpRule.for_target": (
        filters.GdpRule.for_target,
        {"epsilon": (1.0, NUMBER), "delta": (1e-6, DELTA)},
    ),
    "filters.RdpRule": (filters.RdpRule, {"order": (2.0, ORDER), "rho": (1.0, POSITIVE)}),
    "filters.RdpRule.for_target": (
        filters.RdpRule.for_target,
        {
            "epsilon": (1.0, (*POSITIVE, 1e-6)),
            "delta": (1e-6, DELTA),
            "order": (30.0, (NAN, INF, 1.0, 0.5, "1")),
        },
    ),
    "filters.PureDpRule": (
        filters.PureDpRule,
        {"epsilon_budget": (1.0, POSITIVE), "delta_budget": (1e-6, DELTA)},
    ),
    "filters.RogersRule": (
        filters.RogersRule,
        {"epsilon_budget": (1.0, POSITIVE), "delta_budget": (1e-6, DELTA)},
    ),
    "filters.ApproxZcdpRule": (
        filters.ApproxZcdpRule,
        {"rho": (1.0, POSITIVE), "delta_budget": (1e-6, DELTA)},
    ),
    "filters.ApproxZcdpRule.for_target": (
        filters.ApproxZcdpRule.for_target,
        {"epsilon": (1.0, NUMBER), "delta": (1e-6, DELTA), "steps_part": (0.5, DELTA)},
    ),
    "filters.RdpOrdersRule": (
        filters.RdpOrdersRule,
        {
            "orders": (two_orders, ((1.0, 2.0), (2.0, NAN), (2.0,))),
            "rhos": ((1.0, 2.0), ((1.0, NAN), (1.0, 0.0), (1.0, INF), (1.0,))),
        },
    ),
    "filters.RdpOrdersRule.for_target": (
        filters.RdpOrdersRule.for_target,
        target | {"orders": ((20.0, 40.0), ((1.0, 20.0), (20.0, NAN), (1.5, 2.0)))},
    ),
    "filters.RenyiCurveRule": (
        filters.RenyiCurveRule,
        {
            "orders": (two_orders, ((1.0, 2.0), (2.0, NAN), (2.0,))),
            "rhos": ((1.0, 2.0), ((1.0, NAN), (1.0, 0.0), (1.0, INF), (1.0,))),
        },
    ),
    "filters.RenyiCurveRule.for_target": (
        filters.RenyiCurveRule.for_target,
        target
        | {
            "orders": ((20.0, 40.0), ((1.0, 20.0), (20.0, NAN), (1.5, 2.0))),
            "weights": ((0.5, 0.5), ((0.5, NAN), (0.5, -1.5), (0.9, 0.9), (1.0,))),
        },
    ),
    "filters.Filter.would_admit": (lambda rho: one_filter().would_admit(rho), rho_filter),
    "filters.Filter.admit": (lambda rho: one_filter().admit(rho), rho_filter),
    "filters.IndividualFilter": (
        partial(filters.IndividualFilter, filters.ZcdpRule(1.0)),
        {"users": (2, WHOLE), "shares": (np.array([0.5, 1.0]), (*CHARGES, np.array([0.5, 1.5])))},
    ),
    "filters.IndividualFilter.would_admit": (
        lambda step: zcdp_filter().would_admit(step),
        {"step": (np.array([0.1, 0.2]), CHARGES)},
    ),
    "filters.IndividualFilter.admit": (
        lambda step: zcdp_filter().admit(step),
        {"step": (np.array([0.1, 0.2]), CHARGES)},
    ),
    "filters.capacity": (
        lambda step: filters.capacity(filters.ZcdpRule(1.0), step),
        {"step": (0.1, POSITIVE)},
    ),
    "filters.compare": (
        filters.compare,
        target | {"sigma": (50.0, POSITIVE), "query_epsilon": (0.1, POSITIVE)},
    ),
    "odometers.IndividualOdometer": (
        odo.IndividualOdometer,
        {"users": (2, COUNT), "order": (2.0, ORDER), "block": (0.5, (*POSITIVE, 1e9))},
    ),
    "odometers.IndividualOdometer.step": (
        lambda rho, users: individual().step(rho, users),
        {
            "rho": (np.array([0.1, 0.2]), CHARGES),
            "users": (ints([1, 0]), (ints([0, 2]), ints([0, -1]), ints([0, 0]), ints([0]))),
        },
    ),
    "odometers.IndividualOdometer.epsilons": (
        lambda delta: individual().epsilons(delta),
        {"delta": (1e-6, DELTA)},
    ),
    "odometers.LecuyerOdometer": (
        odo.LecuyerOdometer,
        {
            "delta": (1e-6, DELTA),
            "orders": (two_orders, ((1.0, 2.0), (2.0, NAN), (2.0, 2.0))),
            "start": (0.25, (*POSITIVE, 1e9)),
        },
    ),
    "odometers.LecuyerOdometer.step": (
        lambda rdp_values, times: lecuyer().step(rdp_values, times),
        {"rdp_values": ([0.1, 0.2], ANY_CURVE), "times": (3, COUNT)},
    ),
    "odometers.dyadic_orders": (odo.dyadic_orders, {"users": (10, (*COUNT, 1))}),
    "sgd_account.TrajectoryAccount": (
        partial(sgd.TrajectoryAccount),
        {
            "examples": (2, COUNT),
            "rate": (0.01, SHARE),
            "noise": (1.0, POSITIVE),
            "clip": (1.0, POSITIVE),
            "levels": (2, (*COUNT, 2**20)),
            "orders": (two_orders, ((1.0, 2.0), (2.0, NAN), ((2.0,),))),
        },
    ),
    "sgd_account.TrajectoryAccount.refresh": (
        lambda norms: account().refresh(norms),
        {"norms": (np.array([0.1, 0.2]), CHARGES)},
    ),
    "sgd_account.TrajectoryAccount.step": (
        lambda times: account().step(times),
        {"times": (3, COUNT)},
    ),
    "sgd_account.TrajectoryAccount.epsilons": (
        lambda delta: account().epsilons(delta),
        {"delta": (1e-6, DELTA)},
    ),
    "sgd_account.TrajectoryAccount.worst_case": (
        lambda delta: account().worst_case(delta),
        {"delta": (1e-6, DELTA)},
    ),
    "entropy.SeededEntropy": (entropy.SeededEntropy, {"seed": (1, WHOLE)}),
    "entropy.for_release": (entropy.for_release, {"seed": (1, WHOLE), "release": (1, WHOLE)}),
    "gaussian.rounded_gaussian": (
        partial(gaussian.rounded_gaussian, entropy=entropy.SeededEntropy(1)),
        {"sigma": (5.0, (NAN, INF, -1.5, 0.0, 0.1)), "size": (3, WHOLE)},
    ),
    "laplace.discrete_laplace": (
        partial(laplace.discrete_laplace, entropy=entropy.SeededEntropy(1)),
        {"scale": (5.0, POSITIVE), "size": (3, WHOLE)},
    ),
    "laplace.laplace_rdp": (
        laplace.laplace_rdp,
        {"order": (2.0, ORDER), "scale": (5.0, POSITIVE), "shift": (1, WHOLE)},
    ),
    "laplace.laplace_margin": (
        laplace.laplace_margin,
        {"scale": (5.0, POSITIVE), "beta": (0.05, BETA), "draws": (3, COUNT)},
    ),
    "laplace.laplace_pair_tail": (
        laplace.laplace_pair_tail,
        {"scale": (5.0, POSITIVE), "least": (ints([0, 2]), (np.array([0.5]), np.array([NAN])))},
    ),
    "laplace.exp_minus": (laplace.exp_minus, {"x": (Fraction(1), (NAN, -1)), "bits": (40, COUNT)}),
    "quantile.Quantiles": (
        quantile.Quantiles,
        {
            "edges": ([1.0, 2.0], ([1.0, NAN], [1.0, INF], [2.0, 1.0], [])),
            "sigma": (10.0, POSITIVE),
        },
    ),
    "quantile.Quantiles.norms": (
        quantiles.norms,
        {"bins": (ints([0, 2]), (ints([3]), ints([-2]), np.array([0.5])))},
    ),
    "quantile.Quantiles.release": (
        partial(quantiles.release, entropy=entropy.SeededEntropy(1)),
        {"bins": (ints([0, 2]), (ints([3]), ints([-2]), np.array([0.5])))},
    ),
    "quantile.Quantiles.rank_error": (quantiles.rank_error, {"beta": (0.05, DELTA)}),
    "quantile.Ranks.quantile": (quantile.Ranks(quantiles, (1, 2, 3)).quantile, {"q": (0.5, SHARE)}),
    "randomized_response.RandomizedResponse": (
        randomized_response.RandomizedResponse,
        {
            "ratio": (Fraction(3), (NAN, INF, -1, 0, 0.5, "1", None, Fraction(1, 2))),
            "categories": (2, (*COUNT, 1)),
        },
    ),
    "randomized_response.RandomizedResponse.of_epsilon": (
        randomized_response.RandomizedResponse.of_epsilon,
        {"epsilon": (1.0, (*NUMBER, 50.0)), "categories": (2, (*COUNT, 1))},
    ),
    "randomized_response.RandomizedResponse.rdp": (response.rdp, {"order": (2.0, ORDER)}),
    "randomized_response.RandomizedResponse.respond": (
        partial(response.respond, entropy=entropy.SeededEntropy(1)),
        {"values": (ints([0, 1, -1]), (ints([2]), ints([-2]), np.array([0.5]), np.array([NAN])))},
    ),
    "randomized_response.RandomizedResponse.estimate": (
        response.estimate,
        {"answers": (ints([0, 1]), (ints([2]), ints([-1]), np.array([0.5]), np.array([NAN])))},
    ),
    "randomized_response.RandomizedResponse.variance": (
        response.variance,
        {"users": (9, WHOLE), "of_category": (3, (*WHOLE, 10))},
    ),
    "randomized_response.RandomizedResponse.bound": (
        response.bound,
        {"users": (9, COUNT), "beta": (0.05, BETA)},
    ),
    "randomized_response.uniform_below": (
        partial(randomized_response.uniform_below, entropy=entropy.SeededEntropy(1)),
        {"limit": (6, COUNT), "size": (3, WHOLE)},
    ),
    "sparse_vector.LaplaceSparseVector": (
        sv.LaplaceSparseVector,
        {
            "sensitivity": (2, WHOLE),
            "threshold_scale": (20.0, POSITIVE),
            "query_scale": (40.0, POSITIVE),
            "positives": (1, COUNT),
        },
    ),
    "sparse_vector.LaplaceSparseVector.rdp": (laplace_design.rdp, {"order": (2.0, ORDER)}),
    "sparse_vector.LaplaceSparseVector.for_user": (
        laplace_design.for_user,
        {"largest": (1, (*WHOLE, 3))},
    ),
    "sparse_vector.LaplaceSparseVector.margin": (
        laplace_design.margin,
        {"beta": (0.05, BETA), "queries": (9, COUNT)},
    ),
    "sparse_vector.GaussianSparseVector": (
        sv.GaussianSparseVector,
        {
            "sensitivity": (2, WHOLE),
            "threshold_sigma": (20.0, POSITIVE),
            "query_sigma": (40.0, POSITIVE),
            "queries": (8, COUNT),
            "positives": (1, COUNT),
        },
    ),
    "sparse_vector.GaussianSparseVector.rdp": (
        gaussian_design.rdp,
        {"order": (2.0, (*ORDER, 2000.0))},
    ),
    "sparse_vector.GaussianSparseVector.for_user": (
        gaussian_design.for_user,
        {"largest": (1, (*WHOLE, 3))},
    ),
    "sparse_vector.GaussianSparseVector.margin": (gaussian_design.margin, {"beta": (0.05, DELTA)}),
    "sparse_vector.AboveThreshold": (
        partial(sv.AboveThreshold, laplace_design, entropy=entropy.SeededEntropy(1)),
        {"threshold": (9, (NAN, INF, 1.5, "1", None, 2**70)), "noise": (3, (NAN, 1.5, "1"))},
    ),
    "sparse_vector.AboveThreshold.above": (
        lambda value: sv.AboveThreshold(laplace_design, 9, entropy.SeededEntropy(1)).above(value),
        {"value": (3, (NAN, INF, 1.5, "1", None))},
    ),
    "tree_counter.window": (tree.window, {"tick": (3, COUNT)}),
    "tree_counter.count_nodes": (
        tree.count_nodes,
        {"ticks": (ints([1, 2]), (*TICKS, np.array([1.5]))), "horizon": (8, (*COUNT, 1))},
    ),
    "tree_counter.squared_norms": (
        partial(tree.squared_norms, ints([0, 1]), values=ints([1, 1])),
        {"ticks": (ints([1, 2]), TICKS), "horizon": (8, (*COUNT, 1))},
    ),
    "tree_counter.TreeCounter": (
        tree.TreeCounter,
        {"horizon": (8, COUNT), "sigma": (2.0, POSITIVE), "coordinates": (1, COUNT)},
    ),
    "tree_counter.TreeCounter.add": (
        lambda increment: counter().add(increment),
        {"increment": (ints([3]), (np.array([1.5]), ints([1, 2]), np.array([NAN])))},
    ),
    "tree_counter.TreeCounter.release": (
        lambda node: counter().release(node),
        {"node": (ints([3]), (np.array([1.5]), ints([1, 2]), np.array([NAN])))},
    ),
    "tree_counter.TreeCounter.variance": (counter().variance, {"tick": (3, (*COUNT, 9))}),
    "tree_counter.TreeCounter.bound": (
        counter().bound,
        {"beta": (0.05, DELTA), "tick": (3, (NAN, INF, -1, 0, 1.5, "1", 9))},
    ),
    "toeplitz_counter.coefficients": (toeplitz.coefficients, {"horizon": (8, COUNT)}),
    "toeplitz_counter.column_norms": (toeplitz.column_norms, {"horizon": (8, COUNT)}),
    "toeplitz_counter.decoder": (toeplitz.decoder, {"horizon": (8, COUNT)}),
    "toeplitz_counter.spread": (toeplitz.spread, {"tick": (8, COUNT)}),
    "toeplitz_counter.prefix": (
        toeplitz.prefix,
        {"rows": (np.ones((1, 1)), (np.ones((9, 1)),)), "horizon": (8, COUNT)},
    ),
    "toeplitz_counter.ToeplitzCounter": (
        toeplitz.ToeplitzCounter,
        {"horizon": (8, COUNT), "sigma": (2.0, POSITIVE), "coordinates": (1, COUNT)},
    ),
    "toeplitz_counter.ToeplitzCounter.add": (
        lambda increment: toeplitz.ToeplitzCounter(8, 2.0).add(increment),
        {"increment": (ints([3]), (np.array([1.5]), ints([1, 2]), np.array([NAN])))},
    ),
    "toeplitz_counter.ToeplitzCounter.release": (
        lambda row: toeplitz.ToeplitzCounter(8, 2.0).release(row),
        {"row": (ints([3]), (np.array([1.5]), ints([1, 2]), np.array([NAN])))},
    ),
    "toeplitz_counter.ToeplitzCounter.variance": (
        toeplitz.ToeplitzCounter(8, 2.0).variance,
        {"tick": (3, (*COUNT, 9))},
    ),
    "toeplitz_counter.ToeplitzCounter.bound": (
        toeplitz.ToeplitzCounter(8, 2.0).bound,
        {"beta": (0.05, DELTA), "tick": (3, (NAN, INF, -1, 0, 1.5, "1", 9))},
    ),
}

RULES = (
    filters.ZcdpRule(1.0),
    filters.GdpRule(1.0),
    filters.RdpRule(8.0, 1.0),
    filters.PureDpRule(1.0, 1e-6),
    filters.ApproxZcdpRule(1.0, 1e-9),
    filters.RogersRule(1.0, 1e-6),
    orders_rule,
    filters.RenyiCurveRule(two_orders, (1.0, 2.0)),
)
CALLS |= {
    f"filters.{type(rule).__name__}.epsilon": (rule.epsilon, {"delta": (1e-6, DELTA)})
    for rule in RULES
}

NOT_NUMBERS = {"self", "cls", "entropy", "budget", "rule", "design", "state", "step", "part"}
CHECKED_ELSEWHERE = {
    # made by the library alone, from numbers that were checked
    "pilots",
    "pilots.Parent",
    "pilots.Reading",
    "charge.Price",
    "filters.FilterComparison",
    "quantile.Ranks",
    # texts and taps: test_what_is_no_strategy_is_refused; the rest is of numbers of a series
    "strategies",
    "strategies.Strategy",
    # no number goes in, or every number is fine: NaN has no bin
    "filters.Filter",
    "entropy.OSEntropy",
    "entropy.Entropy",
    "entropy.SYSTEM_ENTROPY",
    "quantile.Quantiles.place",
    # the interface of rules, called by filters with numbers that `read` has checked
    "filters.Rule",
    # users' own rows: refused as ticks are
    "tree_counter.squared_norms(users)",
    "tree_counter.squared_norms(values)",
    # an operating system's or a seed's bytes
    "sparse_vector.Design",
}
RULES_INTERFACE = {"fits", "charges", "read", "nothing", "threshold_noise", "query_noise"}


def bad_numbers() -> Iterator[Any]:
    for name, (_, arguments) in CALLS.items():
        for argument, (_, bad) in arguments.items():
            for number, one in enumerate(bad):
                text = number if callable(one) else repr(one)  # a function's has an address in it
                yield pytest.param(name, argument, one, id=f"{name}-{argument}-{text}"[:90])


@pytest.mark.parametrize("name", CALLS)
def test_the_calls_are_valid(name: str) -> None:
    call, arguments = CALLS[name]
    call(**{argument: good for argument, (good, _) in arguments.items()})


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("name", "argument", "bad"), list(bad_numbers()))
def test_a_bad_number_is_refused_by_value_and_range(name: str, argument: str, bad: Any) -> None:
    call, arguments = CALLS[name]
    values = {key: good for key, (good, _) in arguments.items()} | {argument: bad}
    with pytest.raises(ParameterError) as caught:
        call(**values)
    message = caught.value.message
    assert any(
        word in message
        for word in (
            "must be",
            "needed",
            "give one",
            "is the most",
            "must ascend",
            "needs kappa",
            "twice",
        )
    ), message
    assert any(shown in message for shown in offenders(bad)), message


def offenders(bad: Any) -> list[str]:
    """How a message may name the value: as it is, or the first of many that is wrong."""
    if callable(bad):
        return ["-2.0", "nan", "shape"]
    if isinstance(bad, str) or np.ndim(bad) == 0:
        return [repr(bad), str(bad), f"{bad:g}" if isinstance(bad, float) else repr(bad)]
    array = np.asarray(bad)
    parts = [one for one in array.ravel().tolist() if not (isinstance(one, str))]
    listed = [repr(one) for one in parts] + [f"{one:g}" for one in parts if one is not None]
    return [*listed, repr(bad), "shape", str(array.dtype), "orders and", "twice", str(sum(parts))]


def public_modules() -> Iterator[tuple[str, ModuleType]]:
    for package in (sparseq.accounting, sparseq.mechanisms, sparseq.papers):
        for found in pkgutil.iter_modules(package.__path__):
            if not found.name.startswith("_") and found.name not in ABOUT_STORES:
                yield found.name, importlib.import_module(f"{package.__name__}.{found.name}")
    yield "sgd_account", sgd


ABOUT_STORES = {"analyses", "lipschitz", "local"}


def public_calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    for module_name, module in public_modules():
        names = getattr(module, "__all__", [n for n in vars(module) if not n.startswith("_")])
        for name in names:
            one = getattr(module, name)
            home = getattr(one, "__module__", "")
            if not callable(one) or not home.startswith(module.__name__):
                continue
            yield f"{module_name}.{name}", one
            if not inspect.isclass(one):
                continue
            for method in [m for m in vars(one) if not m.startswith("_")]:
                bound = getattr(one, method)
                if callable(bound):
                    yield f"{module_name}.{name}.{method}", bound


def test_every_number_of_the_public_interface_is_in_the_table() -> None:
    missing = []
    for name, call in public_calls():
        owner, last = name.rsplit(".", 1)
        if last in RULES_INTERFACE or {name, owner} & CHECKED_ELSEWHERE:
            continue
        covered = set(CALLS[name][1]) if name in CALLS else set()
        for argument, facts in inspect.signature(call).parameters.items():
            if argument not in NOT_NUMBERS | covered and facts.annotation != "bool":
                missing.append(f"{name}({argument})")
    assert sorted(set(missing) - CHECKED_ELSEWHERE) == []
    assert {name for name, _ in public_calls()} >= CALLS.keys()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nan",
        "1,nan",
        "1,inf",
        "1,-2",
        "0.5,0.1",
        "news:2",
        "news:nan",
        "news:0.1,0",
        "news:0.1,1.5",
        "fractional:2",
        "window:0",
        "window:x",
        "sqrt:1000",
        "1,,",
        "news:1,2,3,4",
        "1" + ",0.1" * 200,
    ],
)
def test_what_is_no_strategy_is_refused(text: str) -> None:
    with pytest.raises(ParameterError):
        Strategy.of(text)


def test_taps_are_of_a_strategy() -> None:
    for taps in ((), (1,), (2**16, 2**16 + 1), (2**16, *[1] * 200)):
        with pytest.raises(ParameterError):
            Strategy(taps)
