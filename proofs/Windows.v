(* Windows of a person, each with an account, and a cap over all of them: weighted, or in or out. *)
From Coq Require Import Reals Lra Lia List NArith ZArith.
From Sparseq Require Import Vectors Sums Gaussian Store Gate Sound.
Import ListNotations.
Open Scope R_scope.

(* --- The triangle inequality ------------------------------------------------------------------ *)

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

(* --- What windows cost together ---------------------------------------------------------------- *)

Section Roots.
Variable unit : R.
Hypothesis unit_pos : 0 < unit.

Definition covered (sigmas : list R) (t : option (N * vector)) : Prop :=
  match t with Some (c, v) => losses sigmas v <= unit * NR c | None => True end.

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
End Roots.

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

(* --- In or out --------------------------------------------------------------------------------- *)

Section Windows.
Variable unit : R.
Hypothesis unit_pos : 0 < unit.

Lemma able_covered q : well q -> forall xs left,
  List.Forall (covered unit (noises unit q)) (able q xs left).
Proof.
  intros Hq xs. induction xs as [|x xs IH]; intros [|l left]; cbn; try constructor.
  - destruct (price q x <=? l)%N; cbn; [apply price_covers; assumption | exact I].
  - apply IH.
Qed.

Definition life_worth (a : lived) : R := unit * NR (for_life a).

Lemma life_worth_nonneg a : 0 <= life_worth a.
Proof. apply Rmult_le_pos; [lra | apply NR_nonneg]. Qed.

Lemma together_pays q : well q -> forall xs a,
  losses (noises unit q) (snd (together q xs a)) <= life_worth a - life_worth (fst (together q xs a)).
Proof.
  intros Hq xs a. unfold together, life_worth.
  set (taken := able q xs (windows a)).
  destruct (N.leb_spec (roots taken * roots taken) (for_life a)) as [H|H]; cbn [fst snd for_life].
  - rewrite NR_minus by exact H.
    pose proof (roots_cover unit unit_pos (noises unit q) (noises_pos unit unit_pos q Hq) taken
                  (able_covered q Hq xs (windows a))). lra.
  - rewrite losses_nothing. lra.
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

(* --- Weighted ---------------------------------------------------------------------------------- *)

Definition living_worth (a : living) : R := unit * NR (life a - life_owed a).

Lemma living_worth_nonneg a : 0 <= living_worth a.
Proof. apply Rmult_le_pos; [lra | apply NR_nonneg]. Qed.

Definition pays_for (sigmas : list R) (t : N * vector) : Prop :=
  losses sigmas (snd t) <= unit * NR (fst t).

Lemma able_parts_covered sigmas asked : List.Forall (pays_for sigmas) asked -> forall l,
  List.Forall (covered unit sigmas) (able_parts asked l).
Proof.
  induction 1 as [|[c v] r Hc _ IH]; intros [|a l]; cbn [able_parts]; constructor; [|apply IH].
  destruct (round_up (owed a + c) <=? left a)%N; [exact Hc | exact I].
Qed.

Lemma vectors_in_32nds taken : vectors (in_32nds taken) = vectors taken.
Proof.
  induction taken as [|[[c v]|] r IH]; [reflexivity| |exact IH].
  cbn. f_equal. exact IH.
Qed.

Lemma roots_in_32nds_cover sigmas taken : List.Forall (fun s => 0 < s) sigmas ->
  List.Forall (covered unit sigmas) taken ->
  losses sigmas (total (vectors taken)) <= unit * NR (cost_of false taken).
Proof.
  intros Hs Ht. assert (0 < unit / 1024) as Hu by lra.
  rewrite <- vectors_in_32nds.
  eapply Rle_trans; [apply (roots_cover (unit / 1024) Hu sigmas Hs)|].
  - induction Ht as [|[[c v]|] r Hc _ IH]; cbn; constructor; auto.
    cbn in *. rewrite NR_mult. unfold NR at 2. cbn. lra.
  - unfold cost_of. set (r := roots (in_32nds taken)).
    pose proof (ceil_div_R (r * r) 1024 eq_refl) as H.
    replace (unit / 1024 * NR (r * r)) with (unit * (NR (r * r) / NR 1024))
      by (unfold NR at 2; cbn; field).
    apply Rmult_le_compat_l; [lra | exact H].
Qed.

Lemma able_parts_disjoint u asked : List.Forall (fun t => disjoint u (snd t)) asked ->
  forall l, disjoint u (total (vectors (able_parts asked l))).
Proof.
  induction 1 as [|[c v] r Hv _ IH]; intros [|a l]; try apply disjoint_nothing.
  cbn [able_parts]. destruct (round_up (owed a + c) <=? left a)%N; [|apply IH].
  cbn [vectors flat_map app total fold_right]. apply disjoint_add; [exact Hv | apply IH].
Qed.

Lemma costs_cover sigmas asked :
  List.Forall (pays_for sigmas) asked ->
  ForallOrdPairs (fun x y => disjoint (snd x) (snd y)) asked -> forall l,
  losses sigmas (total (vectors (able_parts asked l)))
  <= unit * NR (cost_of true (able_parts asked l)).
Proof.
  assert (losses sigmas [] <= unit * NR 0) as H0.
  { rewrite losses_nothing. unfold NR. cbn. lra. }
  intros Hp Hd. induction Hd as [|[c v] r Hv _ IH]; intros [|a l]; try exact H0.
  inversion Hp as [|? ? Hc Hr]; subst. specialize (IH Hr l).
  cbn [able_parts]. destruct (round_up (owed a + c) <=? left a)%N; [|exact IH].
  cbn [vectors flat_map app total fold_right cost_of costs].
  rewrite losses_disjoint by (apply (able_parts_disjoint v r Hv)).
  rewrite NR_plus, Rmult_plus_distr_l. unfold pays_for in Hc. cbn [fst snd] in Hc.
  apply Rplus_le_compat; [exact Hc | exact IH].
Qed.

Lemma admit_each_pays sigmas is_apart asked :
  List.Forall (fun s => 0 < s) sigmas -> List.Forall (pays_for sigmas) asked ->
  (is_apart = true -> ForallOrdPairs (fun x y => disjoint (snd x) (snd y)) asked) -> forall a,
  losses sigmas (snd (admit_each is_apart asked a))
  <= living_worth a - living_worth (fst (admit_each is_apart asked a)).
Proof.
  intros Hs Hp Hd a. unfold admit_each, living_worth.
  set (taken := able_parts asked (by_window a)).
  assert (losses sigmas (total (vectors taken)) <= unit * NR (cost_of is_apart taken)) as H.
  { destruct is_apart.
    - apply costs_cover; auto.
    - apply roots_in_32nds_cover; [exact Hs|]. apply able_parts_covered, Hp. }
  destruct (N.leb_spec (life_owed a + cost_of is_apart taken) (life a)) as [Hl|_];
    cbn [fst snd life life_owed].
  - rewrite !NR_minus, NR_plus by lia. lra.
  - rewrite losses_nothing. lra.
Qed.

Inductive living_part (Data : Type) : Type :=
| PilotEach (m : measure) (read : Data -> living -> list vector)
| SumsEach (is_apart : bool) (q : list summed)
    (read : Data -> living -> list (fraction * list vector))
| EndEach.
Arguments PilotEach {Data}. Arguments SumsEach {Data}. Arguments EndEach {Data}.

Definition living_fair {Data} (p : living_part Data) : Prop :=
  match p with
  | PilotEach m _ => priced (exact m)
  | SumsEach is_apart q read =>
      List.Forall (fun m => priced (exact (sum_of m))) q /\
      (is_apart = true -> forall d a,
         ForallOrdPairs
           (fun x y => disjoint (all_weighed (fst x) q (snd x)) (all_weighed (fst y) q (snd y)))
           (read d a))
  | EndEach => True
  end.

Definition living_of {Data} (p : living_part Data) (d : Data) (a : living) : living * vector :=
  match p with
  | PilotEach m read => pilot_each m (read d a) a
  | SumsEach is_apart q read => sums_each is_apart q (read d a) a
  | EndEach => (settle_each a, [])
  end.

Definition noises_of_living {Data} (p : living_part Data) : list R :=
  match p with
  | PilotEach m _ => noise_of_cells unit m
  | SumsEach _ q _ => noises_of_sums unit q
  | EndEach => []
  end.

Definition living_asked {Data} (p : living_part Data) : question Data living :=
  each (noises_of_living p) (living_of p).

Lemma noises_of_sums_pos q : List.Forall (fun m => priced (exact (sum_of m))) q ->
  List.Forall (fun s => 0 < s) (noises_of_sums unit q).
Proof.
  induction 1 as [|m r Hm _ IH]; cbn; [constructor|].
  apply Forall_app. split; [apply noise_of_cells_pos; assumption | exact IH].
Qed.

Lemma mapped_pairs {A B : Type} (f : A -> B) (rel : B -> B -> Prop) l :
  ForallOrdPairs (fun x y => rel (f x) (f y)) l -> ForallOrdPairs rel (map f l).
Proof.
  induction 1 as [|x l Hx _ IH]; cbn; constructor; [|exact IH].
  apply Forall_map. exact Hx.
Qed.

Theorem capped_weighted {Data} (ask : list vector -> living_part Data) :
  (forall seen, living_fair (ask seen)) ->
  forall n before d of_each cap behind,
    zcdp (unit * NR cap)
      (life_of (fun seen => living_asked (ask seen)) n []
         (before ++ (d, Living of_each cap 0) :: behind))
      (life_of (fun seen => living_asked (ask seen)) n [] (before ++ behind)).
Proof.
  intros Hf n before d of_each cap behind.
  replace (unit * NR cap) with (living_worth (Living of_each cap 0))
    by (unfold living_worth; cbn [life life_owed]; rewrite N.sub_0_r; reflexivity).
  apply (store living_worth living_worth_nonneg).
  intros seen. specialize (Hf seen). unfold living_asked.
  destruct (ask seen) as [m read|is_apart q read|]; cbn [living_fair] in Hf; apply each_sound;
    cbn [noises_of_living living_of].
  - apply noise_of_cells_pos; assumption.
  - intros d' a. apply admit_each_pays; [apply noise_of_cells_pos; assumption| |discriminate].
    apply Forall_map, Forall_forall. intros v _. apply pilot_due_covers; assumption.
  - apply noises_of_sums_pos, Hf.
  - intros d' a. destruct Hf as [Hq Ha].
    apply admit_each_pays; [apply noises_of_sums_pos, Hq| |].
    + apply Forall_map, Forall_forall. intros x _. apply dues_cover; assumption.
    + intros Hap. apply mapped_pairs. cbn [snd]. apply Ha, Hap.
  - constructor.
  - intros d' a. unfold living_worth. cbn [settle_each fst snd losses life life_owed].
    rewrite N.sub_0_r. lra.
Qed.
End Windows.
