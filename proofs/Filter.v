(* One person's filter under any adaptive analyst: Feldman & Zrnic 2021, Theorems 3.1, 4.3, 4.5 and
   Remark 4.4, for countably many outcomes a step and for all orders above 1 at once. *)
From Coq Require Import Reals Lra List NArith Bool.
From Sparseq Require Import Sums.
Import ListNotations.
Open Scope R_scope.

Section Filter.
Context {Outcome A : Type}.                       (* what a step may release; what an account may hold *)
Variable eq_dec : decidable_equality Outcome.

(* One step: the chance of each outcome with the person and without, and the account after it.
   All of it may depend on the account: that is a gate, of whatever kind. *)
Record step := Step { present : A -> Outcome -> R; absent : A -> Outcome -> R; after : A -> A }.

(* Whoever asks sees all that was released, the last outcome first, and chooses the next step. *)
Definition analyst := list Outcome -> step.

(* The chance of each transcript of n steps. *)
Fixpoint transcript (world : step -> A -> Outcome -> R) (ask : analyst) (n : nat)
    (seen : list Outcome) (a : A) : list Outcome -> R :=
  match n with
  | O => nothing
  | S m => after_head (world (ask seen) a)
             (fun o => transcript world ask m (o :: seen) (after (ask seen) a))
  end.

(* What is left in an account is worth this much of zCDP's rho. *)
Variable worth : A -> R.
Hypothesis worth_nonneg : forall a, 0 <= worth a.

(* A step is covered if the account falls by no less than the step loses. *)
Definition covered (s : step) : Prop :=
  forall a, zcdp (worth a - worth (after s a)) (present s a) (absent s a).

Theorem filter (ask : analyst) :
  (forall seen, covered (ask seen)) ->
  forall n seen a,
    zcdp (worth a) (transcript present ask n seen a) (transcript absent ask n seen a).
Proof.
  intros Hc n. induction n as [|n IH]; intros seen a; cbn [transcript].
  - apply zcdp_same; [apply worth_nonneg | apply nothing_nonneg | apply nothing_law].
  - replace (worth a) with (worth a - worth (after (ask seen) a) + worth (after (ask seen) a))
      by ring.
    apply (zcdp_after_head eq_dec); [apply Hc|]. intros o. apply IH.
Qed.

Theorem transcript_law (world : step -> A -> Outcome -> R) (ask : analyst) :
  (forall seen a, is_law (world (ask seen) a)) ->
  forall n seen a, is_law (transcript world ask n seen a).
Proof.
  intros H n. induction n as [|n IH]; intros seen a; cbn [transcript].
  - apply nothing_is_law.
  - apply (after_head_is_law eq_dec); [apply H | intros o; apply IH].
Qed.
End Filter.
Arguments step : clear implicits.
Arguments analyst : clear implicits.

(* --- Integer gates -------------------------------------------------------------------------- *)

(* An account is a number of units. The gate charges [price left], never more than is left, and what
   it charges covers the step's moments. Nothing else is asked of it: in or out, or weighted. *)
Section Integers.
Context {Outcome : Type}.
Variable eq_dec : decidable_equality Outcome.
Variable unit : R.                                       (* rho of one unit of charge *)
Hypothesis unit_nonneg : 0 <= unit.

Definition rho_of (units : N) : R := unit * IZR (Z.of_N units).

Lemma rho_of_nonneg units : 0 <= rho_of units.
Proof. apply Rmult_le_pos; [exact unit_nonneg | apply IZR_le, N2Z.is_nonneg]. Qed.

Lemma rho_of_minus a b : (b <= a)%N -> rho_of a - rho_of (a - b) = rho_of b.
Proof. intros H. unfold rho_of. rewrite N2Z.inj_sub, minus_IZR by exact H. ring. Qed.

Lemma rho_of_le a b : (a <= b)%N -> rho_of a <= rho_of b.
Proof. intros H. apply Rmult_le_compat_l; [exact unit_nonneg | apply IZR_le, N2Z.inj_le, H]. Qed.

Record question := Question { price : N -> N; chances : N -> Outcome -> R; chances_without : Outcome -> R }.

Definition asked (q : question) : step Outcome N :=
  Step (chances q) (fun _ => chances_without q) (fun left => left - price q left)%N.

Definition sound (q : question) : Prop := forall left,
  (price q left <= left)%N /\ zcdp (rho_of (price q left)) (chances q left) (chances_without q).

Theorem integer_gate (ask : list Outcome -> question) :
  (forall seen, sound (ask seen)) ->
  forall n budget,
    zcdp (rho_of budget)
      (transcript present (fun seen => asked (ask seen)) n [] budget)
      (transcript absent (fun seen => asked (ask seen)) n [] budget).
Proof.
  intros Hs n budget. apply (filter eq_dec rho_of rho_of_nonneg).
  intros seen left. destruct (Hs seen left) as [Hle Hz]. cbn.
  rewrite rho_of_minus by exact Hle. exact Hz.
Qed.

(* Algorithm 2: in, if what is left pays for it; else out, free. *)
Definition in_or_out (cost : N) (p q : Outcome -> R) : question :=
  Question (fun left => if (cost <=? left)%N then cost else 0%N)
           (fun left => if (cost <=? left)%N then p else q) q.

Theorem algorithm2 cost p q :
  (forall o, 0 <= q o) -> at_most q 1 -> zcdp (rho_of cost) p q -> sound (in_or_out cost p q).
Proof.
  intros Hq H1 Hz left. cbn. destruct (N.leb_spec cost left).
  - split; assumption.
  - split; [apply N.le_0_l|]. apply zcdp_same; auto. apply rho_of_nonneg.
Qed.
End Integers.

(* --- It is needed --------------------------------------------------------------------------- *)

(* A gate that charges one unit of an account that has none lets somebody in for nothing: its
   transcript is not zCDP at what was left, which is 0. *)
Section Overdrawn.
Definition coin : decidable_equality bool := bool_dec.
Definition heavy (o : bool) : R := if o then 3 / 4 else 1 / 4.
Definition fair (o : bool) : R := 1 / 2.
Definition overdrawn : question := Question (fun _ => 1%N) (fun _ => heavy) fair.

Lemma Rpower_2 x : 0 < x -> Rpower x 2 = x * x.
Proof.
  intros H. replace 2 with (1 + 1) by ring.
  rewrite Rpower_plus, Rpower_1 by exact H. reflexivity.
Qed.

Theorem overdrawn_leaks unit :
  ~ zcdp (rho_of unit 0)
      (transcript present (fun _ => asked overdrawn) 1 [] 0%N)
      (transcript absent (fun _ => asked overdrawn) 1 [] 0%N).
Proof.
  intros [_ H]. destruct (H 2) as [H1 _]; [lra|].
  specialize (H1 [[true]; [false]]).
  unfold rho_of in H1. cbn in H1. rewrite Rmult_0_r, Rmult_0_r, exp_0 in H1.
  unfold renyi, fair in H1. rewrite !Rpower_2 in H1 by lra.
  assert (NoDup [[true]; [false]]) as Hn.
  { repeat constructor; cbn; intuition discriminate. }
  specialize (H1 Hn). lra.
Qed.
End Overdrawn.
