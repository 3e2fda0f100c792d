(* Gates with a fault are not sound: it is not the proofs alone that fail for them. (That a transcript
   then does leak is [Filter.overdrawn_leaks].) *)
From Coq Require Import Reals Lra Lia List NArith ZArith.
From Sparseq Require Import Vectors Sums Gaussian Store Gate Sound.
Import ListNotations.
Open Scope R_scope.

Section Refuted.
Variable unit : R.
Hypothesis unit_pos : 0 < unit.

(* One value, at one unit a squared step; somebody who adds 1. *)
Definition one_count : list measure := [Measure 1 (Fraction 1 1)].
Definition one_row : list vector := [[1%Z]].

Lemma what_it_loses : losses (noises unit one_count) (flat one_count one_row) = unit.
Proof.
  cbn [one_count noises flat_map repeat app cells exact one_row flat fit hd tl losses].
  rewrite (loss_at unit unit_pos) by reflexivity. unfold real, NR. cbn. field.
Qed.

(* Charged a unit less than it costs. *)
Definition cheaper (q : list measure) (x : list vector) (left : N) : N * vector :=
  let cost := N.pred (price q x) in
  if (cost <=? left)%N then ((left - cost)%N, flat q x) else (left, []).

Theorem cheaper_is_unsound :
  ~ Store.sound (units_worth unit) (each (noises unit one_count) (cheaper one_count)).
Proof.
  intros (_ & _ & H).
  assert (cheaper one_count one_row 0 = (0%N, flat one_count one_row)) as E
    by (vm_compute; reflexivity).
  specialize (H one_row 0%N 0%N (flat one_count one_row)).
  cbn [each gate map fst snd] in H. rewrite E in H. specialize (H eq_refl).
  cbn [each sigmas] in H. rewrite what_it_loses in H. unfold units_worth in H. lra.
Qed.

(* What is owed is given back at the end. *)
Definition refund (a : owing) : owing := Owing (left a + round_up (owed a)) 0.

Theorem refund_is_unsound :
  ~ Store.sound (owing_worth unit) (each (Data := Datatypes.unit) [] (fun _ a => (refund a, []))).
Proof.
  intros (_ & _ & H). specialize (H tt (Owing 1 1) (Owing 2 0) [] eq_refl).
  cbn [each sigmas losses] in H. unfold owing_worth, NR in H. cbn in H. lra.
Qed.

(* Let in by what the first person has left. *)
Definition by_the_first (l : list (list vector * N)) : list (N * vector) :=
  map (fun x => in_or_out false one_count (fst x) (snd (hd x l))) l.

Theorem neighbour_is_not_local : ~ local (Question (noises unit one_count) by_the_first).
Proof.
  intros [H _]. specialize (H [(one_row, 0%N)] [(one_row, 1%N)]).
  vm_compute in H. discriminate H.
Qed.
End Refuted.
