(* Steps that may fail: an account of rho, and one of delta. Whitehouse, Ramdas, Rogers & Wu 2023.

   A step is zCDP but for a part of each law, of mass delta at most. Both masses add up, and the filter
   of two accounts holds for all orders, whoever asks. *)
From Coq Require Import Reals Lra List.
From Sparseq Require Import Sums Filter Meaning.
Import ListNotations.
Open Scope R_scope.

(* What is good of either law, and that it is nearly all. *)
Record but_for {T : Type} (delta rho : R) (P Q : T -> R) : Type := But_for {
  good : T -> R;
  good_absent : T -> R;
  good_part : forall t, (0 <= good t <= P t) /\ (0 <= good_absent t <= Q t);
  rest : at_most (fun t => P t - good t) delta;
  rest_absent : at_most (fun t => Q t - good_absent t) delta;
  good_zcdp : zcdp rho good good_absent }.
Arguments good {T delta rho P Q}. Arguments good_absent {T delta rho P Q}.

Lemma at_most_plus {T : Type} (f g : T -> R) a b :
  at_most f a -> at_most g b -> at_most (fun t => f t + g t) (a + b).
Proof.
  intros Hf Hg l Hl. rewrite sum_plus. specialize (Hf l Hl). specialize (Hg l Hl). lra.
Qed.

Lemma below_law {T : Type} (P P1 : T -> R) :
  is_law P -> (forall t, 0 <= P1 t <= P t) -> at_most P1 1.
Proof.
  intros (_ & H1 & _) H l Hl.
  apply Rle_trans with (sum P l); [apply sum_le; intros t; apply H | apply H1, Hl].
Qed.

Section After.
Context {Outcome : Type}.
Variable eq_dec : decidable_equality Outcome.

Lemma rest_after_head (p p1 : Outcome -> R) (f f1 : Outcome -> list Outcome -> R) d1 d2 :
  0 <= d2 -> is_law p -> (forall x, is_law (f x)) ->
  (forall x, 0 <= p1 x <= p x) -> (forall x r, 0 <= f1 x r <= f x r) ->
  at_most (fun x => p x - p1 x) d1 -> (forall x, at_most (fun r => f x r - f1 x r) d2) ->
  at_most (fun t => after_head p f t - after_head p1 f1 t) (d1 + d2).
Proof.
  intros Hd Hp Hf Hp1 Hf1 H1 H2.
  apply (at_most_ext (fun t => after_head (fun x => p x - p1 x) f t
                               + after_head p1 (fun x r => f x r - f1 x r) t)).
  { intros [|x r]; cbn; ring. }
  replace (d1 + d2) with (d1 * 1 + 1 * d2) by ring.
  apply at_most_plus.
  - apply (at_most_cons eq_dec (fun x => p x - p1 x) f); auto; try lra; intros.
    + specialize (Hp1 x). lra.
    + apply Hf.
    + apply Hf.
  - apply (at_most_cons eq_dec p1 (fun x r => f x r - f1 x r)); auto; intros.
    + apply Hp1.
    + specialize (Hf1 x r). lra.
    + apply (below_law p p1 Hp Hp1).
Qed.

Lemma but_for_after_head d1 d2 r1 r2 (p q : Outcome -> R) (f g : Outcome -> list Outcome -> R) :
  0 <= d2 -> is_law p -> is_law q -> (forall x, is_law (f x)) -> (forall x, is_law (g x)) ->
  but_for d1 r1 p q -> (forall x, but_for d2 r2 (f x) (g x)) ->
  but_for (d1 + d2) (r1 + r2) (after_head p f) (after_head q g).
Proof.
  intros Hd Hp Hq Hf Hg [p1 q1 H1 Rp Rq Hz] Hr.
  set (f1 := fun x => good (Hr x)). set (g1 := fun x => good_absent (Hr x)).
  assert (forall x r, (0 <= f1 x r <= f x r) /\ (0 <= g1 x r <= g x r)) as Hfg.
  { intros x r. apply (good_part _ _ _ _ (Hr x)). }
  apply But_for with (good := after_head p1 f1) (good_absent := after_head q1 g1).
  - intros [|x r]; cbn; [lra|]. destruct (H1 x) as [A B], (Hfg x r) as [C D].
    repeat split; try (apply Rmult_le_pos; lra); apply Rmult_le_compat; lra.
  - apply rest_after_head; auto; try apply H1; try apply Hfg.
    intros x. apply (rest _ _ _ _ (Hr x)).
  - apply rest_after_head; auto; try apply H1; try apply Hfg.
    intros x. apply (rest_absent _ _ _ _ (Hr x)).
  - apply (zcdp_after_head eq_dec); [exact Hz|]. intros x. apply (good_zcdp _ _ _ _ (Hr x)).
Qed.
End After.

Section Filter.
Context {Outcome A : Type}.
Variable eq_dec : decidable_equality Outcome.
Variables worth worth_delta : A -> R.
Hypothesis worth_nonneg : forall a, 0 <= worth a.
Hypothesis worth_delta_nonneg : forall a, 0 <= worth_delta a.

Record covered_twice (s : step Outcome A) : Type := Covered_twice {
  laws : forall a, is_law (present s a) /\ is_law (absent s a);
  covers : forall a, but_for (worth_delta a - worth_delta (after s a))
                             (worth a - worth (after s a)) (present s a) (absent s a) }.

(* One account of rho and one of delta: all that is released is zCDP but for delta. *)
Theorem filter_with_delta (ask : analyst Outcome A) :
  (forall seen, covered_twice (ask seen)) ->
  forall n seen a,
    but_for (worth_delta a) (worth a)
      (transcript present ask n seen a) (transcript absent ask n seen a).
Proof.
  intros Hc n. induction n as [|n IH]; intros seen a; cbn [transcript].
  - apply But_for with (good := nothing) (good_absent := nothing).
    + intros t. pose proof (nothing_nonneg t). lra.
    + apply (at_most_ext (fun _ => 0)); [intros; ring|]. intros l _.
      rewrite (sum_zero (fun _ => 0)) by auto. apply worth_delta_nonneg.
    + apply (at_most_ext (fun _ => 0)); [intros; ring|]. intros l _.
      rewrite (sum_zero (fun _ => 0)) by auto. apply worth_delta_nonneg.
    + apply zcdp_same; [apply worth_nonneg | apply nothing_nonneg | apply nothing_law].
  - assert (forall world m seen a, (forall s, world s = present s \/ world s = absent s) ->
      is_law (transcript world ask m seen a)) as Hlaw.
    { intros world m s' a' Hw. apply (transcript_law eq_dec). intros s b.
      destruct (laws _ (Hc s) b). destruct (Hw (ask s)) as [->| ->]; assumption. }
    replace (worth a) with (worth a - worth (after (ask seen) a) + worth (after (ask seen) a))
      by ring.
    replace (worth_delta a)
      with (worth_delta a - worth_delta (after (ask seen) a) + worth_delta (after (ask seen) a))
      by ring.
    apply (but_for_after_head eq_dec).
    + apply worth_delta_nonneg.
    + apply (laws _ (Hc seen)).
    + apply (laws _ (Hc seen)).
    + intros x. apply Hlaw. auto.
    + intros x. apply Hlaw. auto.
    + apply (covers _ (Hc seen)).
    + intros x. apply IH.
Qed.
End Filter.

(* What it means: that delta is added to the other. *)
Theorem approximate_with_delta {T} delta rho (P Q : T -> R) : but_for delta rho P Q ->
  forall al eps, 1 < al -> forall event : list T, NoDup event ->
  sum P event
  <= exp eps * sum Q event + exp ((al - 1) * (al * rho - eps)) + delta.
Proof.
  intros [p q H R _ Hz] al eps Hal event Hn.
  pose proof (approximate rho p q Hz al eps Hal event Hn) as Ha.
  specialize (R event Hn). cbn beta in R.
  assert (sum P event = sum p event + sum (fun t => P t - p t) event) as ->.
  { rewrite <- sum_plus. apply sum_ext. intros; ring. }
  assert (sum q event <= sum Q event) as Hq by (apply sum_le; intros; apply H).
  assert (exp eps * sum q event <= exp eps * sum Q event)
    by (apply Rmult_le_compat_l; [left; apply exp_pos | exact Hq]).
  lra.
Qed.
