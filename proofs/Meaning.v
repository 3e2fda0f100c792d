(* What zCDP means for whoever sees a transcript: Bun & Steinke 2016; Mironov 2017, Proposition 3.

   A set of outcomes, as large as one likes, is hardly more likely with the person than without. *)
From Coq Require Import Reals Lra List.
From Sparseq Require Import Sums.
Import ListNotations.
Open Scope R_scope.

Lemma above al eps p q : 1 < al -> alike p q ->
  p <= exp eps * q + exp (- (al - 1) * eps) * renyi al p q.
Proof.
  intros Hal [[Hp Hq]|[-> ->]]; [|unfold renyi; lra].
  pose proof (exp_pos eps) as He.
  assert (0 <= exp (- (al - 1) * eps) * renyi al p q) as Hr.
  { apply Rmult_le_pos; [left; apply exp_pos | apply renyi_nonneg; lra]. }
  destruct (Rle_or_lt p (exp eps * q)) as [H|H]; [lra|].
  assert (p <= exp (- (al - 1) * eps) * renyi al p q) as Hx;
    [|assert (0 <= exp eps * q) by (apply Rmult_le_pos; lra); lra].
  unfold renyi, Rpower. set (y := ln (p / q)).
  assert (p = q * exp y) as Ep.
  { unfold y. rewrite exp_ln by (apply Rdiv_lt_0_compat; assumption). field. lra. }
  assert (eps < y) as Hy.
  { apply exp_lt_inv. apply Rmult_lt_reg_r with q; [exact Hq|]. rewrite (Rmult_comm (exp y)).
    rewrite <- Ep. exact H. }
  rewrite Ep at 1. replace (exp (- (al - 1) * eps) * (q * exp (al * y)))
    with (q * exp (al * y + - (al - 1) * eps)) by (rewrite exp_plus; ring).
  apply Rmult_le_compat_l; [lra|].
  assert (0 <= (al - 1) * (y - eps)) as [Hz|Hz] by (apply Rmult_le_pos; lra).
  - left. apply exp_increasing. lra.
  - right. f_equal. lra.
Qed.

(* (epsilon, delta): for every order, delta = exp ((alpha - 1) (alpha rho - epsilon)). *)
Theorem approximate {T} rho (P Q : T -> R) : zcdp rho P Q -> forall al eps, 1 < al ->
  forall event : list T, NoDup event ->
  sum P event <= exp eps * sum Q event + exp ((al - 1) * (al * rho - eps)).
Proof.
  intros [Ha Hm] al eps Hal event Hn. destruct (Hm al Hal) as [H _]. specialize (H event Hn).
  cbn beta in H.
  apply Rle_trans with
    (sum (fun t => exp eps * Q t + exp (- (al - 1) * eps) * renyi al (P t) (Q t)) event).
  - apply sum_le. intros t. apply above; auto.
  - rewrite sum_plus, !sum_scal. apply Rplus_le_compat_l.
    replace ((al - 1) * (al * rho - eps)) with (- (al - 1) * eps + al * (al - 1) * rho) by ring.
    rewrite exp_plus. apply Rmult_le_compat_l; [left; apply exp_pos | exact H].
Qed.
