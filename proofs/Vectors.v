(* Vectors of whole numbers, one a person: a coordinate that is missing is 0. *)
From Coq Require Import List ZArith Lia.
Import ListNotations.

Definition vector := list Z.

Fixpoint add_each (a b : vector) : vector :=
  match a, b with
  | [], _ => b
  | _, [] => a
  | x :: r, y :: s => (x + y)%Z :: add_each r s
  end.

Definition total (l : list vector) : vector := fold_right add_each [] l.

Definition at_ (j : nat) (v : vector) : Z := nth j v 0%Z.

Lemma at_add j a b : at_ j (add_each a b) = (at_ j a + at_ j b)%Z.
Proof.
  revert j b. induction a as [|x a IH]; intros [|j] [|y b]; unfold at_ in *; cbn; try lia.
  apply IH.
Qed.

Lemma at_total_app j l m : at_ j (total (l ++ m)) = (at_ j (total l) + at_ j (total m))%Z.
Proof.
  induction l as [|v l IH]; cbn [total app fold_right].
  - destruct j; reflexivity.
  - rewrite !at_add. fold (total (l ++ m)) (total l). rewrite IH. lia.
Qed.

Lemma at_hd v : hd 0%Z v = at_ 0 v.
Proof. destruct v; reflexivity. Qed.

Lemma at_tl j v : at_ j (tl v) = at_ (S j) v.
Proof. destruct v; [destruct j; reflexivity | reflexivity]. Qed.
