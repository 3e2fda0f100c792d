(* Budgets in parts by purpose, with parts that come later: weighted or not, all under one bound. *)
From Coq Require Import Reals Lra Lia List NArith ZArith.
From Sparseq Require Import Vectors Sums Gaussian Store Gate Sound.
Import ListNotations.
Open Scope R_scope.

Arguments Pilot {Data}. Arguments Sums {Data}. Arguments End {Data}.

Section Parts.
Variable unit : R.
Hypothesis unit_pos : 0 < unit.

(* --- Purposes --------------------------------------------------------------------------------- *)

Definition pot_worth (p : pot) : R := owing_worth (unit * real (worth_of_one p)) (account p).

Definition pots_worth (pots : list pot) : R := sum pot_worth pots.

Lemma pot_worth_nonneg p : 0 <= pot_worth p.
Proof.
  unfold pot_worth, owing_worth. pose proof (real_nonneg (worth_of_one p)).
  apply Rmult_le_pos; [apply Rmult_le_pos; lra | apply NR_nonneg].
Qed.

Lemma pots_worth_nonneg pots : 0 <= pots_worth pots.
Proof. apply sum_nonneg, pot_worth_nonneg. Qed.

Lemma same_true a b : same a b = true -> a = b.
Proof.
  unfold same. destruct a as [a1 a2], b as [b1 b2]. cbn. intros H.
  apply Bool.andb_true_iff in H. destruct H as [H1 H2].
  apply N.eqb_eq in H1. apply Pos.eqb_eq in H2. subst. reflexivity.
Qed.

Lemma from_pot_pays j one pay sigmas :
  (forall a, losses sigmas (snd (pay a))
             <= owing_worth (unit * real one) a - owing_worth (unit * real one) (fst (pay a))) ->
  forall pots, losses sigmas (snd (from_pot j one pay pots))
               <= pots_worth pots - pots_worth (fst (from_pot j one pay pots)).
Proof.
  intros Hp pots. revert j. induction pots as [|p r IH]; intros j.
  - cbn [from_pot fst snd]. rewrite losses_nothing. lra.
  - destruct j as [|i]; cbn [from_pot].
    + destruct (same one (worth_of_one p)) eqn:E.
      * apply same_true in E. subst one. specialize (Hp (account p)).
        destruct (pay (account p)) as [a v]. cbn [fst snd] in *.
        unfold pots_worth. cbn [sum]. unfold pot_worth at 1 3. cbn [worth_of_one account]. lra.
      * cbn [fst snd]. rewrite losses_nothing. lra.
    + specialize (IH i). destruct (from_pot i one pay r) as [r' v]. cbn [fst snd] in *.
      unfold pots_worth in *. cbn [sum]. lra.
Qed.

Lemma settled_worth u a : owing_worth u (settle a) = u * NR (left (settle a)).
Proof. unfold owing_worth. cbn [settle owed]. rewrite N.sub_0_r. reflexivity. Qed.

Lemma wholly_pays u q : 0 < u -> well q -> forall halt x a,
  losses (noises u q) (snd (wholly halt q x a))
  <= owing_worth u a - owing_worth u (fst (wholly halt q x a)).
Proof.
  intros Hu Hq halt x a. unfold wholly.
  pose proof (in_or_out_pays u Hu halt q Hq x (left (settle a))) as H.
  pose proof (settle_pays u Hu a) as Hs. rewrite settled_worth in Hs.
  destruct (in_or_out halt q x (left (settle a))) as [l v]. unfold units_worth in H.
  cbn [fst snd] in *. unfold owing_worth at 2. cbn [left owed]. rewrite N.sub_0_r. lra.
Qed.

(* Division rounds down. *)
Lemma div_R a b : (0 < b)%N -> NR (a / b) <= NR a / NR b.
Proof.
  intros H. pose proof (NR_pos b H). apply Rmult_le_reg_r with (NR b); [assumption|].
  replace (NR a / NR b * NR b) with (NR a) by (field; lra).
  rewrite <- NR_mult. apply NR_le. rewrite N.mul_comm. apply N.mul_div_le. lia.
Qed.

Lemma part_off_pays share one most pots :
  pots_worth (part_off share one most pots) <= pots_worth pots.
Proof.
  destruct pots as [|p r]; [right; reflexivity|].
  unfold part_off, pots_worth. set (there := left (settle (account p))).
  set (taken := N.min _ there). set (given := (_ / _)%N).
  cbn [sum]. rewrite sum_app. cbn [sum].
  assert (taken <= there)%N as Ht by apply N.le_min_r.
  assert (unit * real (worth_of_one p) * NR there <= pot_worth p) as Hp.
  { unfold pot_worth, there. pose proof (real_nonneg (worth_of_one p)).
    destruct (Req_dec (unit * real (worth_of_one p)) 0) as [E|E].
    - rewrite E, Rmult_0_l. unfold owing_worth. rewrite Rmult_0_l. lra.
    - assert (0 <= unit * real (worth_of_one p)) by (apply Rmult_le_pos; lra).
      rewrite <- settled_worth. apply settle_pays. lra. }
  unfold pot_worth at 1 3, owing_worth. cbn [worth_of_one account left owed].
  rewrite !N.sub_0_r, NR_minus by exact Ht.
  assert (real one * NR (N.min given most) <= real (worth_of_one p) * NR taken) as H.
  { apply Rle_trans with (real one * NR given).
    { apply Rmult_le_compat_l; [apply real_nonneg | apply NR_le, N.le_min_l]. }
    destruct (N.eq_0_gt_0_cases (over one)) as [E|E].
    { unfold real at 1. rewrite E. unfold NR at 1. cbn. unfold Rdiv.
      rewrite Rmult_0_l, Rmult_0_l.
      apply Rmult_le_pos; [apply real_nonneg | apply NR_nonneg]. }
    eapply Rle_trans.
    { apply Rmult_le_compat_l; [apply real_nonneg | apply div_R; lia]. }
    right. unfold real. rewrite !NR_mult. pose proof (NR_pos _ E).
    pose proof (Npos_pos (under one)). pose proof (Npos_pos (under (worth_of_one p))).
    field. lra. }
  assert (unit * (real one * NR (N.min given most)) <= unit * (real (worth_of_one p) * NR taken))
    by (apply Rmult_le_compat_l; lra).
  lra.
Qed.

(* A step of a store: paid from one part; or a part that comes. What is read of a person is any
   function of own data and own account. *)
Inductive of_parts (Data : Type) : Type :=
| Wholly (j : nat) (one : fraction) (halt : bool) (q : list measure)
    (read : Data * list pot -> list vector)
| Weighted (j : nat) (one : fraction) (p : part (Data * list pot))
| NewPart (share one : fraction) (most : N).
Arguments Wholly {Data}. Arguments Weighted {Data}. Arguments NewPart {Data}.

Definition parts_fair {Data} (p : of_parts Data) : Prop :=
  match p with
  | Wholly _ one _ q _ => 0 < real one /\ well q
  | Weighted _ one p => 0 < real one /\ fair p
  | NewPart _ _ _ => True
  end.

(* The noise of what is paid from a part is that part's. *)
Definition parts_asked {Data} (p : of_parts Data) : question Data (list pot) :=
  match p with
  | Wholly j one halt q read =>
      each (noises (unit * real one) q)
        (fun d pots => from_pot j one (wholly halt q (read (d, pots))) pots)
  | Weighted j one p =>
      each (noises_of_part (unit * real one) p)
        (fun d pots => from_pot j one (part_of p (d, pots)) pots)
  | NewPart share one most => each [] (fun _ pots => (part_off share one most pots, []))
  end.

Theorem purposes {Data} (ask : list vector -> of_parts Data) :
  (forall seen, parts_fair (ask seen)) ->
  forall n before d pots behind,
    zcdp (pots_worth pots)
      (life_of (fun seen => parts_asked (ask seen)) n [] (before ++ (d, pots) :: behind))
      (life_of (fun seen => parts_asked (ask seen)) n [] (before ++ behind)).
Proof.
  intros Hf n before d pots behind. apply (store pots_worth pots_worth_nonneg).
  intros seen. specialize (Hf seen).
  destruct (ask seen) as [j one halt q read|j one p|share one most];
    cbn [parts_asked parts_fair] in *.
  - destruct Hf as [Ho Hq]. assert (0 < unit * real one) by (apply Rmult_lt_0_compat; assumption).
    apply each_sound; [apply noises_pos; assumption|].
    intros d' pots'. apply from_pot_pays. intros a. apply wholly_pays; assumption.
  - destruct Hf as [Ho Hp]. assert (0 < unit * real one) by (apply Rmult_lt_0_compat; assumption).
    apply each_sound; [apply noises_of_part_pos; assumption|].
    intros d' pots'. apply from_pot_pays. intros a. apply part_pays; assumption.
  - apply each_sound; [constructor|]. intros d' pots'. cbn [fst snd losses].
    pose proof (part_off_pays share one most pots'). lra.
Qed.
End Parts.
