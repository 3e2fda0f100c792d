(* A store: everybody has an account, one gate serves all, sums are released with noise.

   [store]: whoever asks and however, all that a store releases is zCDP for adding or removing all of
   one person, at what that person's account is worth. Of the gate three things are asked:

   - it is [local]: what it says of some people does not depend on who else is there;
   - it [pays]: somebody's account falls by no less than what that person adds costs;
   - an account is never worth less than nothing. *)
From Coq Require Import Reals Lra List ZArith Lia.
From Sparseq Require Import Vectors Sums Gaussian.
Import ListNotations.
Open Scope R_scope.

(* --- What a difference of sums loses -------------------------------------------------------- *)

Lemma losses_ext sigmas : forall a b,
  (forall j, at_ j a = at_ j b) -> losses sigmas a = losses sigmas b.
Proof.
  induction sigmas as [|s sigmas IH]; intros a b H; cbn; [reflexivity|].
  rewrite !at_hd, H. f_equal. apply IH. intros j. rewrite !at_tl. apply H.
Qed.

Lemma losses_minus sigmas : forall a b v,
  (forall j, at_ j a = at_ j b + at_ j v)%Z ->
  losses sigmas (minus_each a b (length sigmas)) = losses sigmas v.
Proof.
  induction sigmas as [|s sigmas IH]; intros a b v H; cbn [losses length minus_each hd tl];
    [reflexivity|].
  rewrite !at_hd, H. f_equal.
  - do 2 f_equal. lia.
  - apply IH. intros j. rewrite !at_tl. apply H.
Qed.

(* --- The store ------------------------------------------------------------------------------ *)

Section Store.
(* What the store holds of a person, and that person's account. Data may be all that ever arrives:
   a question reads of it what has come by then. *)
Context {Data A : Type}.
Local Notation people := (list (Data * A)).

(* sigmas: the noise of each value that is released, public. gate: what it makes of everybody's data
   and accounts: everybody's account after it, and the vector that each adds. *)
Record question := Question {
  sigmas : list R;
  gate : people -> list (A * vector) }.

(* Whoever asks sees all that was released, the last answer first. *)
Definition analyst := list vector -> question.

Definition released (q : question) (l : people) : vector -> R :=
  answers (sigmas q) (total (map snd (gate q l))).

Definition moved (q : question) (l : people) : people :=
  combine (map fst l) (map fst (gate q l)).

(* The chance of each transcript of n answers. *)
Fixpoint life_of (ask : analyst) (n : nat) (seen : list vector) (l : people) : list vector -> R :=
  match n with
  | O => nothing
  | S m => after_head (released (ask seen) l)
             (fun o => life_of ask m (o :: seen) (moved (ask seen) l))
  end.

Variable worth : A -> R.
Hypothesis worth_nonneg : forall a, 0 <= worth a.

Definition local (q : question) : Prop :=
  (forall l m, gate q (l ++ m) = gate q l ++ gate q m) /\
  (forall x, length (gate q [x]) = 1%nat).

Definition pays (q : question) : Prop :=
  forall d a a' v, gate q [(d, a)] = [(a', v)] ->
    losses (sigmas q) v <= worth a - worth a'.

Definition sound (q : question) : Prop :=
  List.Forall (fun s => 0 < s) (sigmas q) /\ local q /\ pays q.

Definition vector_eq_dec : decidable_equality vector := list_eq_dec Z.eq_dec.

Lemma local_nil q : local q -> gate q [] = [].
Proof.
  intros [H _]. specialize (H [] []). cbn in H.
  apply (f_equal (@length _)) in H. rewrite app_length in H.
  destruct (gate q []); [reflexivity | cbn in H; lia].
Qed.

Lemma local_length q l : local q -> length (gate q l) = length l.
Proof.
  intros Hq. induction l as [|x l IH]; [rewrite local_nil by exact Hq; reflexivity|].
  destruct Hq as [H1 H2]. change (x :: l) with ([x] ++ l).
  rewrite H1, !app_length, H2, IH. reflexivity.
Qed.

Lemma combine_app {B C : Type} (l m : list B) : forall (v w : list C),
  length l = length v -> combine (l ++ m) (v ++ w) = combine l v ++ combine m w.
Proof.
  induction l as [|x l IH]; intros [|y v] w E; cbn in *; try lia; [reflexivity|].
  f_equal. apply IH. lia.
Qed.

Lemma moved_app q l m : local q -> moved q (l ++ m) = moved q l ++ moved q m.
Proof.
  intros Hq. pose proof (local_length q l Hq) as Hl. destruct Hq as [H _].
  unfold moved. rewrite H, !map_app.
  apply combine_app. rewrite !map_length. symmetry. exact Hl.
Qed.

Lemma gate_one q d a : local q -> exists a' v, gate q [(d, a)] = [(a', v)].
Proof.
  intros [_ H]. specialize (H (d, a)).
  destruct (gate q [(d, a)]) as [|[a' v] [|]]; cbn in H; try lia. exists a', v. reflexivity.
Qed.

Theorem store (ask : analyst) :
  (forall seen, sound (ask seen)) ->
  forall n seen before d a behind,
    zcdp (worth a) (life_of ask n seen (before ++ (d, a) :: behind))
                   (life_of ask n seen (before ++ behind)).
Proof.
  intros Hs n. induction n as [|n IH]; intros seen before d a behind; cbn [life_of].
  - apply zcdp_same; [apply worth_nonneg | apply nothing_nonneg | apply nothing_law].
  - destruct (Hs seen) as (Hsig & Hlocal & Hpays). set (q := ask seen) in *.
    destruct (gate_one q d a Hlocal) as (a' & v & Hone).
    specialize (Hpays d a a' v Hone).
    replace (worth a) with (worth a - worth a' + worth a') by ring.
    change (before ++ (d, a) :: behind) with (before ++ [(d, a)] ++ behind).
    apply (zcdp_after_head vector_eq_dec).
    + apply zcdp_weaken with (losses (sigmas q) v); [exact Hpays|].
      unfold released. destruct Hlocal as [Happ _]. rewrite !Happ, Hone, !map_app.
      cbn [map snd].
      rewrite <- (losses_minus (sigmas q)
                    (total (map snd (gate q before) ++ [v] ++ map snd (gate q behind)))
                    (total (map snd (gate q before) ++ map snd (gate q behind))) v).
      * apply noises_zcdp, Hsig.
      * intros j. rewrite !at_total_app. cbn [total fold_right]. rewrite at_add.
        unfold at_ at 3. destruct j; cbn; lia.
    + intros o. rewrite !moved_app by exact Hlocal.
      assert (moved q [(d, a)] = [(d, a')]) as -> by (unfold moved; rewrite Hone; reflexivity).
      apply IH.
Qed.

(* What a store releases is a law: the chances of all transcripts make 1. *)
Theorem life_law (ask : analyst) :
  (forall seen, List.Forall (fun s => 0 < s) (sigmas (ask seen))) ->
  forall n seen l, is_law (life_of ask n seen l).
Proof.
  intros Hs n. induction n as [|n IH]; intros seen l; cbn [life_of].
  - apply nothing_is_law.
  - apply (after_head_is_law vector_eq_dec); [apply answers_law, Hs | intros o; apply IH].
Qed.
End Store.
Arguments question : clear implicits.
Arguments analyst : clear implicits.

(* Own budgets: the statement for all is that for the largest. *)
Corollary store_of_all {Data A : Type} (worth : A -> R) (most : R) (ask : analyst Data A) :
  (forall a, 0 <= worth a) -> (forall seen, sound worth (ask seen)) ->
  forall n before d a behind, worth a <= most ->
    zcdp most (life_of ask n [] (before ++ (d, a) :: behind))
              (life_of ask n [] (before ++ behind)).
Proof.
  intros Hw Hs n before d a behind Ha.
  apply zcdp_weaken with (worth a); [exact Ha | apply store; assumption].
Qed.
