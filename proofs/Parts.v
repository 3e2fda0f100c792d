(* Budgets in parts: by purpose, with parts that come later; and windows of a person with a cap over
   all of them. Accounts of other kinds than one number, under the same theorem. *)
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

(* --- A cap over all windows of a person ------------------------------------------------------ *)

Definition life_worth (a : lived) : R := unit * NR (for_life a).

Lemma life_worth_nonneg a : 0 <= life_worth a.
Proof. apply Rmult_le_pos; [lra | apply NR_nonneg]. Qed.

Lemma hd_add u v : hd 0%Z (add_each u v) = (hd 0 u + hd 0 v)%Z.
Proof. rewrite !at_hd. apply at_add. Qed.

Lemma tl_add u v : tl (add_each u v) = add_each (tl u) (tl v).
Proof. destruct u as [|x u], v as [|y v]; try reflexivity. cbn. destruct u; reflexivity. Qed.

Lemma loss_add s e x y : 0 < s -> 0 < e ->
  loss s (x + y) <= (1 + e) * loss s x + (1 + / e) * loss s y.
Proof.
  intros Hs He. unfold loss.
  assert (0 < / (2 * (s * s))) as Hp.
  { apply Rinv_0_lt_compat. pose proof (Rmult_lt_0_compat s s Hs Hs). lra. }
  unfold Rdiv. set (w := / (2 * (s * s))) in *.
  assert (0 <= (e * x - y) * (e * x - y) * / e) as H.
  { apply Rmult_le_pos; [apply Rle_0_sqr | left; apply Rinv_0_lt_compat, He]. }
  replace ((e * x - y) * (e * x - y) * / e) with (e * (x * x) - 2 * x * y + / e * (y * y)) in H
    by (field; lra).
  apply Rmult_le_compat_r with (r := w) in H; [|lra]. lra.
Qed.

Lemma losses_add sigmas e : List.Forall (fun s => 0 < s) sigmas -> 0 < e -> forall u v,
  losses sigmas (add_each u v) <= (1 + e) * losses sigmas u + (1 + / e) * losses sigmas v.
Proof.
  intros Hs He. induction Hs as [|s r Hs _ IH]; intros u v; cbn [losses]; [lra|].
  rewrite hd_add, tl_add, plus_IZR.
  pose proof (loss_add s e (IZR (hd 0%Z u)) (IZR (hd 0%Z v)) Hs He). specialize (IH (tl u) (tl v)).
  lra.
Qed.

(* The triangle inequality: vectors in one direction cost the square of the sum of their norms. *)
Lemma triangle sigmas u v s t : List.Forall (fun s => 0 < s) sigmas -> 0 <= s -> 0 <= t ->
  losses sigmas u <= s * s -> losses sigmas v <= t * t ->
  losses sigmas (add_each u v) <= (s + t) * (s + t).
Proof.
  intros Hsig Hs Ht Hu Hv.
  assert (forall d, 0 < d -> losses sigmas (add_each u v) <= (s + t + 2 * d) * (s + t + 2 * d)) as H.
  { intros d Hd.
    assert (0 < (t + d) / (s + d)) as He by (apply Rdiv_lt_0_compat; lra).
    pose proof (losses_add sigmas _ Hsig He u v) as H.
    assert (s * s <= (s + d) * (s + d)) by (apply Rmult_le_compat; lra).
    assert (t * t <= (t + d) * (t + d)) by (apply Rmult_le_compat; lra).
    eapply Rle_trans; [exact H|].
    apply Rle_trans with ((1 + (t + d) / (s + d)) * ((s + d) * (s + d))
                          + (1 + / ((t + d) / (s + d))) * ((t + d) * (t + d))).
    - apply Rplus_le_compat; apply Rmult_le_compat_l; try lra.
      pose proof (Rinv_0_lt_compat _ He). lra.
    - right. field. lra. }
  destruct (Rle_or_lt (losses sigmas (add_each u v)) ((s + t) * (s + t))) as [Hl|Hl]; [exact Hl|].
  exfalso. set (gap := losses sigmas (add_each u v) - (s + t) * (s + t)) in *.
  assert (0 < gap) as Hg by (unfold gap; lra).
  set (c := 4 * (s + t) + 4 + gap).
  assert (0 < c) as Hc by (unfold c; lra).
  set (d := gap / (2 * c)).
  assert (0 < d) as Hd by (apply Rdiv_lt_0_compat; lra).
  assert (d * (2 * c) = gap) as Ed by (unfold d; field; lra).
  assert (d < 1).
  { apply Rmult_lt_reg_r with (2 * c); [lra|]. rewrite Ed. unfold c. lra. }
  specialize (H d Hd).
  assert ((s + t + 2 * d) * (s + t + 2 * d) = (s + t) * (s + t) + d * (4 * (s + t) + 4 * d)) as E
    by ring.
  rewrite E in H.
  assert (d * (4 * (s + t) + 4 * d) <= d * c).
  { apply Rmult_le_compat_l; [lra|]. unfold c. lra. }
  assert (d * c = gap / 2) by lra. unfold gap in *. lra.
Qed.

Definition covered (sigmas : list R) (t : option (N * vector)) : Prop :=
  match t with Some (c, v) => losses sigmas v <= unit * NR c | None => True end.

Lemma able_covered q : well q -> forall xs left,
  List.Forall (covered (noises unit q)) (able q xs left).
Proof.
  intros Hq xs. induction xs as [|x xs IH]; intros [|l left]; cbn; try constructor.
  - destruct (price q x <=? l)%N; cbn; [apply price_covers; assumption | exact I].
  - apply IH.
Qed.

Lemma roots_cover sigmas : List.Forall (fun s => 0 < s) sigmas -> forall taken,
  List.Forall (covered sigmas) taken ->
  losses sigmas (total (vectors taken)) <= unit * NR (roots taken * roots taken).
Proof.
  intros Hsig taken H.
  assert (losses sigmas (total (vectors taken))
          <= (sqrt unit * NR (roots taken)) * (sqrt unit * NR (roots taken))) as Hr.
  { induction H as [|[[c v]|] r Hc _ IH]; cbn [vectors flat_map roots fold_right total app].
    - rewrite losses_nothing. unfold NR. cbn. lra.
    - rewrite NR_plus, Rmult_plus_distr_l. apply triangle; try assumption.
      + apply Rmult_le_pos; [apply sqrt_pos | apply NR_nonneg].
      + apply Rmult_le_pos; [apply sqrt_pos | apply NR_nonneg].
      + cbn in Hc. eapply Rle_trans; [exact Hc|].
        assert (c <= N.sqrt_up c * N.sqrt_up c)%N as Hq.
        { destruct (N.eq_0_gt_0_cases c) as [->|Hp]; [lia|]. apply N.sqrt_up_spec, Hp. }
        apply NR_le in Hq. rewrite NR_mult in Hq.
        replace (sqrt unit * NR (N.sqrt_up c) * (sqrt unit * NR (N.sqrt_up c)))
          with ((sqrt unit * sqrt unit) * (NR (N.sqrt_up c) * NR (N.sqrt_up c))) by ring.
        rewrite sqrt_sqrt by lra. apply Rmult_le_compat_l; lra.
    - exact IH. }
  eapply Rle_trans; [exact Hr|]. right. rewrite NR_mult.
  replace (sqrt unit * NR (roots taken) * (sqrt unit * NR (roots taken)))
    with ((sqrt unit * sqrt unit) * (NR (roots taken) * NR (roots taken))) by ring.
  rewrite sqrt_sqrt by lra. ring.
Qed.

Lemma together_pays q : well q -> forall xs a,
  losses (noises unit q) (snd (together q xs a)) <= life_worth a - life_worth (fst (together q xs a)).
Proof.
  intros Hq xs a. unfold together, life_worth.
  set (taken := able q xs (windows a)).
  destruct (N.leb_spec (roots taken * roots taken) (for_life a)) as [H|H]; cbn [fst snd for_life].
  - rewrite NR_minus by exact H.
    pose proof (roots_cover (noises unit q) (noises_pos unit unit_pos q Hq) taken
                  (able_covered q Hq xs (windows a))). lra.
  - rewrite losses_nothing. lra.
Qed.

(* No value adds up two windows. *)
Definition disjoint (u v : vector) : Prop := forall j, at_ j u = 0%Z \/ at_ j v = 0%Z.

Lemma losses_disjoint sigmas : forall u v, disjoint u v ->
  losses sigmas (add_each u v) = losses sigmas u + losses sigmas v.
Proof.
  induction sigmas as [|s r IH]; intros u v H; cbn [losses]; [ring|].
  rewrite hd_add, tl_add, IH.
  - rewrite !at_hd. destruct (H 0%nat) as [E|E]; rewrite E.
    + rewrite Z.add_0_l, loss_zero. ring.
    + rewrite Z.add_0_r, loss_zero. ring.
  - intros j. rewrite !at_tl. apply H.
Qed.

Lemma disjoint_nothing u : disjoint u [].
Proof. intros j. right. destruct j; reflexivity. Qed.

Lemma disjoint_add u v w : disjoint u v -> disjoint u w -> disjoint u (add_each v w).
Proof.
  intros H1 H2 j. rewrite at_add. destruct (H1 j) as [E|E]; [auto|].
  destruct (H2 j) as [E'|E']; [auto|]. right. lia.
Qed.

Lemma in_turn_disjoint q u xs : List.Forall (fun x => disjoint u (flat q x)) xs ->
  forall left life, disjoint u (total (vectors (fst (in_turn (able q xs left) life)))).
Proof.
  induction 1 as [|x xs Hx _ IH]; intros [|l left] life; try apply disjoint_nothing.
  cbn [able]. destruct (price q x <=? l)%N; cbn [in_turn].
  - destruct (price q x <=? life)%N; [|apply disjoint_nothing].
    specialize (IH left (life - price q x)%N).
    destruct (in_turn (able q xs left) (life - price q x)) as [t k]. cbn [fst] in *.
    apply disjoint_add; assumption.
  - specialize (IH left life).
    destruct (in_turn (able q xs left) life) as [t k]. exact IH.
Qed.

Lemma in_turn_pays q : well q -> forall xs,
  ForallOrdPairs (fun x y => disjoint (flat q x) (flat q y)) xs -> forall left life,
  losses (noises unit q) (total (vectors (fst (in_turn (able q xs left) life))))
  <= unit * NR life - unit * NR (snd (in_turn (able q xs left) life)).
Proof.
  intros Hq xs H.
  assert (forall life, losses (noises unit q) [] <= unit * NR life - unit * NR 0) as Hout.
  { intros life. rewrite losses_nothing. pose proof (NR_nonneg life).
    assert (0 <= unit * NR life) by (apply Rmult_le_pos; lra).
    unfold NR at 2. cbn. lra. }
  assert (forall life, losses (noises unit q) [] <= unit * NR life - unit * NR life) as Hstay.
  { intros life. rewrite losses_nothing. lra. }
  induction H as [|x xs Hx _ IH]; intros [|l left] life; cbn [able in_turn fst snd vectors flat_map
    total fold_right]; auto.
  destruct (price q x <=? l)%N; cbn [in_turn].
  - destruct (N.leb_spec (price q x) life) as [Hl|Hl]; [|apply Hout].
    pose proof (in_turn_disjoint q (flat q x) xs Hx left (life - price q x)) as Hd.
    specialize (IH left (life - price q x)%N).
    destruct (in_turn (able q xs left) (life - price q x)) as [t k]. cbn [fst snd] in *.
    cbn [vectors flat_map app total fold_right]. fold (vectors t) (total (vectors t)).
    rewrite losses_disjoint by exact Hd. rewrite NR_minus in IH by exact Hl.
    pose proof (price_covers unit unit_pos q Hq x). lra.
  - specialize (IH left life).
    destruct (in_turn (able q xs left) life) as [t k]. exact IH.
Qed.

Lemma apart_pays q : well q -> forall xs,
  ForallOrdPairs (fun x y => disjoint (flat q x) (flat q y)) xs -> forall a,
  losses (noises unit q) (snd (apart q xs a)) <= life_worth a - life_worth (fst (apart q xs a)).
Proof.
  intros Hq xs H a. unfold apart, life_worth.
  pose proof (in_turn_pays q Hq xs H (windows a) (for_life a)) as Hp.
  destruct (in_turn (able q xs (windows a)) (for_life a)) as [t k]. exact Hp.
Qed.

(* A question reads a person's vectors, one list a window. *)
Record of_windows (Data : Type) : Type := Windows {
  is_apart : bool;
  measures : list measure;
  read_windows : Data -> list (list vector) }.
Arguments Windows {Data}. Arguments is_apart {Data}.
Arguments measures {Data}. Arguments read_windows {Data}.

Definition windows_fair {Data} (p : of_windows Data) : Prop :=
  well (measures p) /\
  (is_apart p = true -> forall d,
     ForallOrdPairs (fun x y => disjoint (flat (measures p) x) (flat (measures p) y))
       (read_windows p d)).

Definition windows_asked {Data} (p : of_windows Data) : question Data lived :=
  each (noises unit (measures p)) (fun d a =>
    if is_apart p then apart (measures p) (read_windows p d) a
    else together (measures p) (read_windows p d) a).

(* All of a person's windows: at the cap. *)
Theorem capped {Data} (ask : list vector -> of_windows Data) :
  (forall seen, windows_fair (ask seen)) ->
  forall n before d of_each cap behind,
    zcdp (unit * NR cap)
      (life_of (fun seen => windows_asked (ask seen)) n []
         (before ++ (d, Lived of_each cap) :: behind))
      (life_of (fun seen => windows_asked (ask seen)) n [] (before ++ behind)).
Proof.
  intros Hf n before d of_each cap behind.
  change (unit * NR cap) with (life_worth (Lived of_each cap)).
  apply (store life_worth life_worth_nonneg).
  intros seen. destruct (Hf seen) as [Hq Ha]. apply each_sound; [apply noises_pos; assumption|].
  intros d' a. destruct (is_apart (ask seen)).
  - apply apart_pays; auto.
  - apply together_pays, Hq.
Qed.
End Parts.
