(* Every gate of Gate.v pays for what it adds: so everything that a store with it ever releases is
   zCDP for each person, at what the person's account was worth. *)
From Coq Require Import Reals Lra Lia List NArith ZArith.
From Sparseq Require Import Vectors Sums Filter Gaussian Store Gate.
Import ListNotations.
Open Scope R_scope.

(* --- Whole numbers as real ones -------------------------------------------------------------- *)

Definition NR (n : N) : R := IZR (Z.of_N n).

Lemma NR_nonneg n : 0 <= NR n.
Proof. apply IZR_le, N2Z.is_nonneg. Qed.

Lemma NR_plus a b : NR (a + b) = NR a + NR b.
Proof. unfold NR. rewrite N2Z.inj_add. apply plus_IZR. Qed.

Lemma NR_mult a b : NR (a * b) = NR a * NR b.
Proof. unfold NR. rewrite N2Z.inj_mul. apply mult_IZR. Qed.

Lemma NR_le a b : (a <= b)%N -> NR a <= NR b.
Proof. intros H. apply IZR_le, N2Z.inj_le, H. Qed.

Lemma NR_pos a : (0 < a)%N -> 0 < NR a.
Proof. intros H. apply IZR_lt. lia. Qed.

Lemma NR_minus a b : (b <= a)%N -> NR (a - b) = NR a - NR b.
Proof. intros H. unfold NR. rewrite N2Z.inj_sub by exact H. apply minus_IZR. Qed.

Lemma NR_minus_ge a b : NR a - NR b <= NR (a - b).
Proof.
  destruct (N.le_ge_cases b a) as [H|H]; [rewrite NR_minus by exact H; lra|].
  pose proof (NR_nonneg (a - b)). apply NR_le in H. lra.
Qed.

Lemma ceil_div_covers a b : (0 < b)%N -> (a <= ceil_div a b * b)%N.
Proof.
  intros H. unfold ceil_div.
  pose proof (N.div_mod (a + (b - 1)) b). pose proof (N.mod_lt (a + (b - 1)) b).
  rewrite N.mul_comm. lia.
Qed.

Lemma ceil_div_R a b : (0 < b)%N -> NR a / NR b <= NR (ceil_div a b).
Proof.
  intros H. pose proof (NR_pos b H). pose proof (NR_le _ _ (ceil_div_covers a b H)) as Hc.
  rewrite NR_mult in Hc. apply Rmult_le_reg_r with (NR b); [assumption|].
  replace (NR a / NR b * NR b) with (NR a) by (field; lra). exact Hc.
Qed.

Lemma power_pos s : (0 < 2 ^ s)%N.
Proof. pose proof (N.pow_nonzero 2 s). lia. Qed.

Lemma round_up_covers c : (c <= round_up c)%N.
Proof. apply ceil_div_covers, power_pos. Qed.

(* --- Prices are never below the exact ones --------------------------------------------------- *)

Definition real (r : fraction) : R := NR (over r) / NR (Npos (under r)).

Lemma Npos_pos p : 0 < NR (Npos p).
Proof. apply NR_pos. lia. Qed.

Lemma real_nonneg r : 0 <= real r.
Proof.
  apply Rmult_le_pos; [apply NR_nonneg | left; apply Rinv_0_lt_compat, Npos_pos].
Qed.

Lemma at_price_covers r norm : real r * NR norm <= NR (at_price r norm).
Proof.
  unfold at_price, rate.
  match goal with |- context [if ?b then ?s else ?t] => set (s0 := if b then s else t) end.
  apply Rle_trans with (NR (norm * ceil_div (over r * 2 ^ s0) (Npos (under r))) / NR (2 ^ s0));
    [|apply ceil_div_R, power_pos].
  pose proof (ceil_div_R (over r * 2 ^ s0) (Npos (under r)) ltac:(lia)) as H.
  pose proof (NR_pos _ (power_pos s0)) as Hp. pose proof (Npos_pos (under r)).
  rewrite NR_mult in *.
  replace (real r * NR norm)
    with (NR norm * (NR (over r) * NR (2 ^ s0) / NR (Npos (under r))) / NR (2 ^ s0))
    by (unfold real; field; lra).
  apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat, Hp|].
  apply Rmult_le_compat_l; [apply NR_nonneg | exact H].
Qed.

(* --- What vectors lose ----------------------------------------------------------------------- *)

Lemma loss_zero s : loss s (IZR 0) = 0.
Proof. unfold loss, Rdiv. ring. Qed.

Lemma loss_nonneg s d : 0 < s -> 0 <= loss s d.
Proof.
  intros H. unfold loss. pose proof (Rle_0_sqr d) as Hd. unfold Rsqr in Hd.
  apply Rmult_le_pos; [exact Hd|]. left. apply Rinv_0_lt_compat.
  pose proof (Rmult_lt_0_compat s s H H). lra.
Qed.

Lemma losses_nothing sigmas : losses sigmas [] = 0.
Proof.
  induction sigmas as [|s r IH]; cbn; [reflexivity|]. rewrite IH, loss_zero. ring.
Qed.

Lemma losses_nonneg sigmas : List.Forall (fun s => 0 < s) sigmas -> forall v, 0 <= losses sigmas v.
Proof.
  induction 1 as [|s r Hs _ IH]; intros v; cbn; [lra|].
  pose proof (loss_nonneg s (IZR (hd 0%Z v)) Hs). specialize (IH (tl v)). lra.
Qed.

Lemma losses_app s1 : forall v1 s2 v2, length v1 = length s1 ->
  losses (s1 ++ s2) (v1 ++ v2) = losses s1 v1 + losses s2 v2.
Proof.
  induction s1 as [|s r IH]; intros [|x v1] s2 v2 E; cbn in *; try lia; [ring|].
  rewrite IH by lia. ring.
Qed.

Lemma fit_length n : forall v, length (fit n v) = n.
Proof. induction n; intros v; cbn; auto. Qed.

Section Sound.
Variable unit : R.                                          (* rho of one unit of charge *)
Hypothesis unit_pos : 0 < unit.

(* The noise that a price stands for, in lattice steps: 1 / (2 sigma^2) is [unit] times the price. It
   is the one that the code draws ([noise_of_code]). *)
Definition noise_at (r : fraction) : R := / sqrt (2 * unit * real r).

Definition priced (r : fraction) : Prop := (0 < over r)%N.

Lemma real_pos r : priced r -> 0 < real r.
Proof. intros H. apply Rdiv_lt_0_compat; [apply NR_pos, H | apply Npos_pos]. Qed.

Lemma noise_at_pos r : priced r -> 0 < noise_at r.
Proof.
  intros H. apply Rinv_0_lt_compat, sqrt_lt_R0. pose proof (real_pos r H).
  apply Rmult_lt_0_compat; lra.
Qed.

Lemma loss_at r d : priced r -> loss (noise_at r) d = unit * real r * (d * d).
Proof.
  intros H. pose proof (real_pos r H) as Hr. unfold loss, noise_at.
  assert (0 < 2 * unit * real r) as Hu by (apply Rmult_lt_0_compat; lra).
  pose proof (sqrt_lt_R0 _ Hu) as Hs.
  replace (d * d / (2 * (/ sqrt (2 * unit * real r) * / sqrt (2 * unit * real r))))
    with (d * d / 2 * (sqrt (2 * unit * real r) * sqrt (2 * unit * real r))) by (field; lra).
  rewrite sqrt_sqrt by lra. field.
Qed.

Lemma square_R x : NR (Z.to_N (x * x)) = IZR x * IZR x.
Proof. unfold NR. rewrite Z2N.id by nia. apply mult_IZR. Qed.

Lemma losses_repeat r n : priced r -> forall v, length v = n ->
  losses (repeat (noise_at r) n) v = unit * real r * NR (squares v).
Proof.
  intros H. induction n as [|n IH]; intros [|x v] E;
    cbn [length repeat losses hd tl squares] in *; try lia; [unfold NR; cbn; ring|].
  rewrite IH, loss_at, NR_plus, square_R by (auto; lia). ring.
Qed.

(* --- A question's noise, and what its charges cover ------------------------------------------- *)

Definition noises (q : list measure) : list R :=
  flat_map (fun m => repeat (noise_at (exact m)) (cells m)) q.

Definition well (q : list measure) : Prop := List.Forall (fun m => priced (exact m)) q.

Lemma noises_pos q : well q -> List.Forall (fun s => 0 < s) (noises q).
Proof.
  induction 1 as [|m r Hm _ IH]; cbn; [constructor|].
  apply Forall_app. split; [|exact IH]. apply Forall_forall. intros s Hs.
  apply repeat_spec in Hs. subst s. apply noise_at_pos, Hm.
Qed.

Lemma charge_covers m v : priced (exact m) ->
  losses (repeat (noise_at (exact m)) (cells m)) (fit (cells m) v) <= unit * NR (charge m v).
Proof.
  intros H. rewrite losses_repeat by (auto using fit_length). rewrite Rmult_assoc.
  apply Rmult_le_compat_l; [lra | apply at_price_covers].
Qed.

Lemma charges_cover q : well q -> forall x,
  losses (noises q) (flat q x) <= unit * NR (charges q x).
Proof.
  induction 1 as [|m r Hm _ IH]; intros x; cbn [noises flat_map flat charges losses].
  - unfold NR. cbn. lra.
  - rewrite losses_app by (rewrite fit_length, repeat_length; reflexivity).
    rewrite NR_plus, Rmult_plus_distr_l.
    apply Rplus_le_compat; [apply charge_covers, Hm | apply IH].
Qed.

Lemma price_covers q : well q -> forall x,
  losses (noises q) (flat q x) <= unit * NR (price q x).
Proof.
  intros Hq x. apply Rle_trans with (unit * NR (charges q x)); [apply charges_cover, Hq|].
  apply Rmult_le_compat_l; [lra | apply NR_le, round_up_covers].
Qed.

(* --- From one person's gate to that of a store ------------------------------------------------ *)

Section Each.
Context {Data A : Type}.
Variable worth : A -> R.

(* What everybody has and adds follows from own data and own account. *)
Definition each (sigmas : list R) (one : Data -> A -> A * vector) : question Data A :=
  Question sigmas (map (fun x => one (fst x) (snd x))).

Lemma each_local sigmas one : local (each sigmas one).
Proof. split; [intros l m; apply map_app | reflexivity]. Qed.

(* What the extracted program does in a step is what such a store does. *)
Lemma step_is_that_of_the_store sigmas one l :
  step one l = (map fst (gate (each sigmas one) l), total (map snd (gate (each sigmas one) l))).
Proof. reflexivity. Qed.

Theorem each_sound sigmas one :
  List.Forall (fun s => 0 < s) sigmas ->
  (forall d a, losses sigmas (snd (one d a)) <= worth a - worth (fst (one d a))) ->
  Store.sound worth (each sigmas one).
Proof.
  intros Hs H. split; [exact Hs|]. split; [apply each_local|].
  intros d a a' v E. cbn in E. specialize (H d a). injection E as E. rewrite E in H. exact H.
Qed.
End Each.

(* --- Algorithm 2 ------------------------------------------------------------------------------ *)

Definition units_worth (left : N) : R := unit * NR left.

Lemma units_worth_nonneg a : 0 <= units_worth a.
Proof. apply Rmult_le_pos; [lra | apply NR_nonneg]. Qed.

Lemma in_or_out_pays halt q : well q -> forall x left,
  losses (noises q) (snd (in_or_out halt q x left))
  <= units_worth left - units_worth (fst (in_or_out halt q x left)).
Proof.
  intros Hq x left. unfold in_or_out, units_worth. destruct (N.leb_spec (price q x) left) as [H|H].
  - cbn [fst snd]. rewrite NR_minus by exact H. pose proof (price_covers q Hq x). lra.
  - cbn [fst snd]. rewrite losses_nothing. destruct halt; [|lra].
    pose proof (Rmult_le_pos unit (NR left)). pose proof (NR_nonneg left).
    unfold NR at 2. cbn. lra.
Qed.

(* What is asked: a question, and the vectors that it reads of a person's data. *)
Definition asked {Data} (halt : bool) (q : list measure) (read : Data -> list vector)
  : question Data N :=
  each (noises q) (fun d left => in_or_out halt q (read d) left).

Theorem algorithm2 {Data} (halt : bool)
    (ask : list vector -> list measure * (Data -> list vector)) :
  (forall seen, well (fst (ask seen))) ->
  forall n before d budget behind,
    zcdp (unit * NR budget)
      (life_of (fun seen => asked halt (fst (ask seen)) (snd (ask seen))) n []
         (before ++ (d, budget) :: behind))
      (life_of (fun seen => asked halt (fst (ask seen)) (snd (ask seen))) n []
         (before ++ behind)).
Proof.
  intros Hw n before d budget behind.
  apply (store units_worth units_worth_nonneg). intros seen.
  apply each_sound; [apply noises_pos, Hw|]. intros. apply in_or_out_pays, Hw.
Qed.

(* --- Weighted --------------------------------------------------------------------------------- *)

Definition owing_worth (a : owing) : R := unit * NR (left a - owed a).

Lemma owing_worth_nonneg a : 0 <= owing_worth a.
Proof. apply Rmult_le_pos; [lra | apply NR_nonneg]. Qed.

Lemma admit_pays sigmas due v a :
  losses sigmas v <= unit * NR due ->
  losses sigmas (snd (admit due v a)) <= owing_worth a - owing_worth (fst (admit due v a)).
Proof.
  intros H. unfold admit, owing_worth.
  destruct (N.leb_spec (round_up (owed a + due)) (left a)) as [Hl|_]; cbn [fst snd left owed].
  - pose proof (round_up_covers (owed a + due)).
    rewrite !NR_minus, NR_plus by lia. lra.
  - rewrite losses_nothing. lra.
Qed.

Lemma settle_pays a : owing_worth (settle a) <= owing_worth a.
Proof.
  unfold owing_worth, settle. cbn [left owed]. apply Rmult_le_compat_l; [lra|].
  apply NR_le. pose proof (round_up_covers (owed a)). lia.
Qed.

Definition noise_of_cells (m : measure) : list R := repeat (noise_at (exact m)) (cells m).

Lemma pilot_due_covers m v : priced (exact m) ->
  losses (noise_of_cells m) (fit (cells m) v) <= unit * NR (pilot_due m v).
Proof.
  intros H. unfold noise_of_cells, pilot_due.
  rewrite losses_repeat by (auto using fit_length). rewrite Rmult_assoc.
  apply Rmult_le_compat_l; [lra|]. unfold real.
  eapply Rle_trans; [|apply ceil_div_R; lia].
  rewrite NR_mult. right. field. pose proof (Npos_pos (under (exact m))). lra.
Qed.

Lemma pilot_pays m : priced (exact m) -> forall v a,
  losses (noise_of_cells m) (snd (pilot m v a))
  <= owing_worth a - owing_worth (fst (pilot m v a)).
Proof. intros H v a. apply admit_pays, pilot_due_covers, H. Qed.

(* Truncated towards zero, no step is larger than it would be. *)
Lemma quot_square a b : (0 < b)%Z -> IZR (Z.quot a b) * IZR (Z.quot a b) * (IZR b * IZR b)
                                      <= IZR a * IZR a.
Proof.
  intros Hb. rewrite <- !mult_IZR. apply IZR_le.
  set (k := Z.quot a b).
  replace (k * k * (b * b))%Z with ((b * k) * (b * k))%Z by ring.
  destruct (Z.le_ge_cases 0 a) as [H|H].
  - pose proof (Z.mul_quot_le a b H ltac:(lia)). fold k in H0. nia.
  - pose proof (Z.mul_quot_ge a b H ltac:(lia)). fold k in H0. nia.
Qed.

Lemma weighed_squares w m v :
  NR (squares (weighed w m v))
  <= real w * real w * (real (finer m) * real (finer m)) * NR (squares (fit (cells (sum_of m)) v)).
Proof.
  unfold weighed. generalize (fit (cells (sum_of m)) v) as u.
  induction u as [|x u IH]; cbn [map squares]; [unfold NR; cbn; lra|].
  rewrite !NR_plus, Rmult_plus_distr_l, !square_R.
  apply Rplus_le_compat; [|exact IH]. clear IH.
  pose proof (quot_square (x * Z.of_N (over w * over (finer m))) (Zpos (under w * under (finer m)))
                ltac:(lia)) as H.
  set (y := IZR (Z.quot _ _)) in *.
  rewrite mult_IZR in H. fold (NR (over w * over (finer m))) in H.
  rewrite NR_mult in H. rewrite Pos2Z.inj_mul, mult_IZR in H.
  change (IZR (Zpos (under w))) with (NR (Npos (under w))) in H.
  change (IZR (Zpos (under (finer m)))) with (NR (Npos (under (finer m)))) in H.
  pose proof (Npos_pos (under w)). pose proof (Npos_pos (under (finer m))). unfold real.
  set (b := NR (Npos (under w))) in *. set (c := NR (Npos (under (finer m)))) in *.
  assert (0 < (b * c) * (b * c)) as Hbc.
  { assert (0 < b * c) by (apply Rmult_lt_0_compat; assumption). apply Rmult_lt_0_compat; assumption. }
  apply Rmult_le_reg_r with ((b * c) * (b * c)); [exact Hbc|].
  eapply Rle_trans; [exact H|]. right. field. lra.
Qed.

Lemma due_covers w m v : priced (exact (sum_of m)) ->
  losses (noise_of_cells (sum_of m)) (weighed w m v) <= unit * NR (due_of w m v).
Proof.
  intros H. unfold noise_of_cells.
  rewrite losses_repeat; [|exact H|unfold weighed; rewrite map_length; apply fit_length].
  rewrite Rmult_assoc. apply Rmult_le_compat_l; [lra|].
  unfold due_of. eapply Rle_trans; [|apply at_price_covers].
  set (S := squares (fit (cells (sum_of m)) v)).
  apply Rle_trans with (real (exact (sum_of m))
    * (real w * real w * (real (finer m) * real (finer m)) * NR S)).
  { apply Rmult_le_compat_l; [apply real_nonneg | apply weighed_squares]. }
  eapply Rle_trans;
    [|apply Rmult_le_compat_l; [apply real_nonneg | apply ceil_div_R; lia]].
  right. unfold real, price_at_fixed. cbn [over under].
  rewrite !NR_mult. change (Npos (?a * ?b)) with (Npos a * Npos b)%N.
  repeat match goal with |- context [N.pos (?a * ?b)] =>
    change (N.pos (a * b)) with (N.pos a * N.pos b)%N end.
  rewrite !NR_mult.
  pose proof (Npos_pos (under w)). pose proof (Npos_pos (under (finer m))).
  pose proof (Npos_pos (under (exact (sum_of m)))).
  pose proof (Npos_pos (fst (fixed m))). pose proof (Npos_pos (snd (fixed m))).
  field. repeat split; lra.
Qed.

Definition noises_of_sums (q : list summed) : list R :=
  flat_map (fun m => noise_of_cells (sum_of m)) q.

Lemma dues_cover w q : List.Forall (fun m => priced (exact (sum_of m))) q -> forall x,
  losses (noises_of_sums q) (all_weighed w q x) <= unit * NR (dues w q x).
Proof.
  induction 1 as [|m r Hm _ IH]; intros x; cbn [noises_of_sums flat_map all_weighed dues losses].
  - unfold NR. cbn. lra.
  - rewrite losses_app.
    + rewrite NR_plus, Rmult_plus_distr_l.
      apply Rplus_le_compat; [apply due_covers, Hm | apply IH].
    + unfold weighed, noise_of_cells. rewrite map_length, fit_length, repeat_length. reflexivity.
Qed.

Lemma sums_pay w q : List.Forall (fun m => priced (exact (sum_of m))) q -> forall x a,
  losses (noises_of_sums q) (snd (sums w q x a))
  <= owing_worth a - owing_worth (fst (sums w q x a)).
Proof. intros H x a. apply admit_pays, dues_cover, H. Qed.

(* A step of a weighted store: a pilot, sums, or the end of a question, at which all pay what they
   owe. Weights, and what a pilot counts, are any function of own data and own account. *)
Inductive part (Data : Type) : Type :=
| Pilot (m : measure) (read : Data -> owing -> vector)
| Sums (q : list summed) (weight : Data -> owing -> fraction) (read : Data -> owing -> list vector)
| End.
Arguments Pilot {Data}. Arguments Sums {Data}. Arguments End {Data}.

Definition fair {Data} (p : part Data) : Prop :=
  match p with
  | Pilot m _ => priced (exact m)
  | Sums q _ _ => List.Forall (fun m => priced (exact (sum_of m))) q
  | End => True
  end.

Definition part_of {Data} (p : part Data) (d : Data) (a : owing) : owing * vector :=
  match p with
  | Pilot m read => pilot m (read d a) a
  | Sums q weight read => sums (weight d a) q (read d a) a
  | End => (settle a, [])
  end.

Definition noises_of_part {Data} (p : part Data) : list R :=
  match p with Pilot m _ => noise_of_cells m | Sums q _ _ => noises_of_sums q | End => [] end.

Definition part_asked {Data} (p : part Data) : question Data owing :=
  each (noises_of_part p) (part_of p).

Lemma noise_of_cells_pos m : priced (exact m) -> List.Forall (fun s => 0 < s) (noise_of_cells m).
Proof.
  intros H. apply Forall_forall. intros s Hs. apply repeat_spec in Hs. subst s.
  apply noise_at_pos, H.
Qed.

Lemma noises_of_part_pos {Data} (p : part Data) :
  fair p -> List.Forall (fun s => 0 < s) (noises_of_part p).
Proof.
  destruct p as [m read | q weight read |]; cbn; intros H; [|clear weight read|constructor].
  - apply noise_of_cells_pos, H.
  - induction H as [|m r Hm _ IH]; cbn; [constructor|].
    apply Forall_app. split; [apply noise_of_cells_pos, Hm | exact IH].
Qed.

Lemma part_pays {Data} (p : part Data) : fair p -> forall d a,
  losses (noises_of_part p) (snd (part_of p d a))
  <= owing_worth a - owing_worth (fst (part_of p d a)).
Proof.
  destruct p as [m read | q weight read |]; cbn [fair noises_of_part part_of]; intros H d a.
  - apply pilot_pays, H.
  - apply sums_pay, H.
  - cbn [fst snd losses]. pose proof (settle_pays a). lra.
Qed.

Theorem weighted {Data} (ask : list vector -> part Data) :
  (forall seen, fair (ask seen)) ->
  forall n before d budget behind,
    zcdp (unit * NR budget)
      (life_of (fun seen => part_asked (ask seen)) n [] (before ++ (d, Owing budget 0) :: behind))
      (life_of (fun seen => part_asked (ask seen)) n [] (before ++ behind)).
Proof.
  intros Hf n before d budget behind.
  replace (unit * NR budget) with (owing_worth (Owing budget 0))
    by (unfold owing_worth; cbn [left owed]; rewrite N.sub_0_r; reflexivity).
  apply (store owing_worth owing_worth_nonneg). intros seen.
  apply each_sound; [apply noises_of_part_pos, Hf | apply part_pays, Hf].
Qed.
End Sound.

(* --- In a store's own terms ------------------------------------------------------------------- *)

(* A store of kappa and norm_budget: a unit is 2^-24 of squared norm, and worth that part of kappa. *)
Definition unit_of (kappa norm_budget : R) : R := kappa / (norm_budget * 2 ^ 24).

(* sparseq/accounting/charge.py's price of noise sigma on a lattice of step g stands for noise sigma / g
   in lattice steps. *)
Lemma noise_of_code kappa norm_budget sigma g r :
  0 < kappa -> 0 < norm_budget -> 0 < sigma -> 0 < g ->
  real r = g * g * (norm_budget / (2 * kappa)) / (sigma * sigma) * 2 ^ 24 ->
  noise_at (unit_of kappa norm_budget) r = sigma / g.
Proof.
  intros Hk Hb Hs Hg E. unfold noise_at, unit_of. rewrite E.
  replace (2 * (kappa / (norm_budget * 2 ^ 24))
           * (g * g * (norm_budget / (2 * kappa)) / (sigma * sigma) * 2 ^ 24))
    with ((g / sigma) * (g / sigma)) by (field; lra).
  rewrite sqrt_square; [field; lra|]. left. apply Rdiv_lt_0_compat; assumption.
Qed.

(* A budget of no more than norm_budget is worth no more than kappa. *)
Lemma worth_at_most_kappa kappa norm_budget units :
  0 < kappa -> 0 < norm_budget -> NR units <= norm_budget * 2 ^ 24 ->
  unit_of kappa norm_budget * NR units <= kappa.
Proof.
  intros Hk Hb H. unfold unit_of.
  assert (0 < norm_budget * 2 ^ 24) as Hp by (apply Rmult_lt_0_compat; lra).
  apply Rmult_le_reg_r with (norm_budget * 2 ^ 24); [exact Hp|].
  replace (kappa / (norm_budget * 2 ^ 24) * NR units * (norm_budget * 2 ^ 24))
    with (kappa * NR units) by (field; lra).
  apply Rmult_le_compat_l; lra.
Qed.

(* All that a store of weighted questions ever releases is kappa-zCDP, for each person. *)
Theorem kappa_zcdp {Data} kappa norm_budget (ask : list vector -> part Data) :
  0 < kappa -> 0 < norm_budget -> (forall seen, fair (ask seen)) ->
  forall n before d budget behind, NR budget <= norm_budget * 2 ^ 24 ->
    zcdp kappa
      (life_of (fun seen => part_asked (unit_of kappa norm_budget) (ask seen)) n []
         (before ++ (d, Owing budget 0) :: behind))
      (life_of (fun seen => part_asked (unit_of kappa norm_budget) (ask seen)) n []
         (before ++ behind)).
Proof.
  intros Hk Hb Hf n before d budget behind H.
  assert (0 < unit_of kappa norm_budget) as Hu.
  { apply Rdiv_lt_0_compat; [exact Hk | apply Rmult_lt_0_compat; lra]. }
  apply zcdp_weaken with (unit_of kappa norm_budget * NR budget).
  - apply worth_at_most_kappa; assumption.
  - apply weighted; assumption.
Qed.
