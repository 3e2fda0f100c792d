(* The noise of sparseq/mechanisms/gaussian.py: floor(sigma Z + 1/2), Z ~ N(0, 1), an integer.

   [noise sigma k] is P(k - 1/2 <= sigma Z < k + 1/2), the integral of the density over that cell.
   It is a law on the integers ([noise_total]), and for integers m1 and m2 the laws of m1 + noise and
   m2 + noise are zCDP at (m1 - m2)^2 / (2 sigma^2), as those of the Gaussian itself are
   ([noise_zcdp]). So is a vector of such, at the sum ([noises_zcdp]). *)
From Coq Require Import Reals Lra Lia List ZArith FinFun.
From Coquelicot Require Import Coquelicot.
From Sparseq Require Import Sums.
Import ListNotations.
Open Scope R_scope.

(* --- Convexity ------------------------------------------------------------------------------ *)

Lemma exp_ge_tangent z : 1 + z <= exp z.
Proof.
  destruct (Req_dec z 0) as [->|H]; [rewrite exp_0; lra | left; apply exp_ineq1, H].
Qed.

(* Bernoulli's inequality, for a real exponent: t = exp y. *)
Lemma bernoulli al y : 1 < al -> 1 + al * (exp y - 1) <= exp (al * y).
Proof.
  intros Hal.
  assert (exp y * (1 + (al - 1) * y) <= exp (al * y)) as H1.
  { replace (al * y) with (y + (al - 1) * y) by ring. rewrite exp_plus.
    apply Rmult_le_compat_l; [left; apply exp_pos | apply exp_ge_tangent]. }
  assert (exp y * (1 - y) <= 1) as H2.
  { replace 1 with (exp y * exp (- y)) at 2
      by (rewrite <- exp_plus, Rplus_opp_r; apply exp_0).
    apply Rmult_le_compat_l; [left; apply exp_pos|].
    pose proof (exp_ge_tangent (- y)). lra. }
  assert ((al - 1) * (exp y * (1 - y)) <= (al - 1) * 1) as H3
    by (apply Rmult_le_compat_l; lra).
  lra.
Qed.

(* --- The integral of exp(-x^2 / 2 sigma^2) -------------------------------------------------- *)

Section Sigma.
Variable sigma : R.
Hypothesis sigma_pos : 0 < sigma.

Definition bell (x : R) : R := exp (- (x * x) / (2 * (sigma * sigma))).

Lemma variance_pos : 0 < 2 * (sigma * sigma).
Proof. assert (0 < sigma * sigma) by (apply Rmult_lt_0_compat; lra). lra. Qed.

Lemma bell_pos x : 0 < bell x.
Proof. apply exp_pos. Qed.

Lemma bell_continuous m x : continuous (fun x => bell (x - m)) x.
Proof.
  apply (ex_derive_continuous (fun x => bell (x - m))). unfold bell.
  auto_derive. pose proof variance_pos. lra.
Qed.

Lemma bell_integrable m a b : ex_RInt (fun x => bell (x - m)) a b.
Proof. apply (ex_RInt_continuous (V := R_CompleteNormedModule)). intros x _. apply bell_continuous. Qed.

Definition area (m a b : R) : R := RInt (fun x => bell (x - m)) a b.

Lemma area_chasles m a b c : area m a b + area m b c = area m a c.
Proof. apply (RInt_Chasles (V := R_CompleteNormedModule)); apply bell_integrable. Qed.

Lemma area_nonneg m a b : a <= b -> 0 <= area m a b.
Proof.
  intros H. apply RInt_ge_0; [exact H | apply bell_integrable | intros x _; left; apply bell_pos].
Qed.

Lemma area_pos m a b : a < b -> 0 < area m a b.
Proof.
  intros H. apply RInt_gt_0; [exact H | intros x _; apply bell_pos | intros x _; apply bell_continuous].
Qed.

Lemma area_wider m a b c d : a <= c -> c <= d -> d <= b -> area m c d <= area m a b.
Proof.
  intros H1 H2 H3. rewrite <- (area_chasles m a c b), <- (area_chasles m c d b).
  pose proof (area_nonneg m a c H1). pose proof (area_nonneg m d b H3). lra.
Qed.

Lemma area_shift m a b : area m a b = area 0 (a - m) (b - m).
Proof.
  unfold area.
  pose proof (RInt_comp_lin (V := R_CompleteNormedModule) (fun x => bell (x - 0)) 1 (- m) a b) as H.
  replace (1 * a + - m) with (a - m) in H by ring.
  replace (1 * b + - m) with (b - m) in H by ring.
  rewrite <- H by apply bell_integrable.
  apply RInt_ext. intros x _. unfold scal; cbn; unfold mult; cbn.
  rewrite Rmult_1_l. f_equal. ring.
Qed.

(* Below the derivative of an arc tangent. *)
Definition width : R := sqrt (2 * (sigma * sigma)).

Lemma width_pos : 0 < width.
Proof. apply sqrt_lt_R0, variance_pos. Qed.

Lemma width_square : width * width = 2 * (sigma * sigma).
Proof. apply sqrt_sqrt. pose proof variance_pos. lra. Qed.

Lemma area_bounded a b : a <= b -> area 0 a b <= width * PI.
Proof.
  intros Hab.
  assert (is_RInt (fun x => / (1 + (x / width) * (x / width))) a b
            (width * atan (b / width) - width * atan (a / width))) as H.
  { pose proof width_pos as Hw.
    apply (is_RInt_derive (V := R_CompleteNormedModule) (fun x => width * atan (x / width))).
    - intros x _. auto_derive; [lra|]. field.
      split; [lra|]. assert (0 < width * width + x * x); [|lra].
      assert (0 < width * width) by (apply Rmult_lt_0_compat; lra).
      pose proof (Rle_0_sqr x). unfold Rsqr in *. lra.
    - intros x _. apply (ex_derive_continuous (fun x => / (1 + (x / width) * (x / width)))).
      auto_derive.
      pose proof (Rle_0_sqr (x * / width)). unfold Rsqr in *. lra. }
  apply Rle_trans with (width * atan (b / width) - width * atan (a / width)).
  - unfold area. rewrite <- (is_RInt_unique _ _ _ _ H).
    apply RInt_le; [exact Hab | apply bell_integrable | eexists; exact H |].
    intros x _. unfold bell. rewrite Rminus_0_r.
    assert (- (x * x) / (2 * (sigma * sigma)) = - ((x / width) * (x / width))) as ->.
    { rewrite <- width_square. pose proof width_pos. field. lra. }
    rewrite exp_Ropp. pose proof (Rle_0_sqr (x / width)) as Hs. unfold Rsqr in Hs.
    apply Rinv_le_contravar; [lra | apply exp_ge_tangent].
  - pose proof (atan_bound (b / width)). pose proof (atan_bound (a / width)).
    rewrite <- Rmult_minus_distr_l. apply Rmult_le_compat_l; [left; apply width_pos | lra].
Qed.

(* All of it: sqrt(2 pi) sigma, but nothing here needs its value. *)
Definition half_way (n : nat) : R := INR n + 1 / 2.
Definition middle (n : nat) : R := area 0 (- half_way n) (half_way n).
Definition whole : R := real (Lim_seq middle).

Lemma half_way_pos n : 0 < half_way n.
Proof. unfold half_way. pose proof (pos_INR n). lra. Qed.

Lemma middle_grows n : middle n <= middle (S n).
Proof.
  unfold middle. pose proof (half_way_pos n).
  assert (half_way (S n) = half_way n + 1) by (unfold half_way; rewrite S_INR; ring).
  apply area_wider; lra.
Qed.

Lemma middle_limit : is_lim_seq middle whole.
Proof.
  assert (ex_finite_lim_seq middle) as H.
  { apply ex_finite_lim_seq_incr with (width * PI); [apply middle_grows|].
    intros n. apply area_bounded. pose proof (half_way_pos n). lra. }
  apply Lim_seq_correct'. exact H.
Qed.

Lemma middle_le_whole n : middle n <= whole.
Proof. apply (is_lim_seq_incr_compare middle); [apply middle_limit | apply middle_grows]. Qed.

Lemma whole_pos : 0 < whole.
Proof.
  apply Rlt_le_trans with (middle 0); [|apply middle_le_whole].
  apply area_pos. pose proof (half_way_pos 0). lra.
Qed.

Lemma area_le_whole m a b : a <= b -> area m a b <= whole.
Proof.
  intros Hab. rewrite area_shift.
  destruct (nfloor_ex (Rabs (a - m) + Rabs (b - m))) as [n Hn].
  { pose proof (Rabs_pos (a - m)). pose proof (Rabs_pos (b - m)). lra. }
  apply Rle_trans with (middle (S n)); [|apply middle_le_whole].
  assert (Rabs (a - m) + Rabs (b - m) < half_way (S n)) as H.
  { unfold half_way. rewrite S_INR. lra. }
  pose proof (Rabs_pos (a - m)). pose proof (Rabs_pos (b - m)).
  pose proof (Rle_abs (b - m)). pose proof (Rle_abs (- (a - m))) as Ha.
  rewrite Rabs_Ropp in Ha. apply area_wider; lra.
Qed.

(* --- Cells around the integers -------------------------------------------------------------- *)

Definition cell (f : R -> R) (k : Z) : R := RInt f (IZR k - 1 / 2) (IZR k + 1 / 2).

Definition integers (from : Z) (n : nat) : list Z := map (fun i => (from + Z.of_nat i)%Z) (seq 0 n).

Lemma in_integers from n k : (from <= k < from + Z.of_nat n)%Z -> In k (integers from n).
Proof.
  intros H. apply in_map_iff. exists (Z.to_nat (k - from)).
  split; [lia | apply in_seq; lia].
Qed.

Lemma cells_of_integers m from n :
  sum (cell (fun x => bell (x - m))) (integers from n)
  = area m (IZR from - 1 / 2) (IZR from - 1 / 2 + INR n).
Proof.
  induction n as [|n IH].
  - cbn [integers seq map sum]. rewrite Rplus_0_r. unfold area. rewrite RInt_point. reflexivity.
  - unfold integers in *. rewrite seq_S, map_app, sum_app, IH. cbn [map sum Nat.add].
    rewrite Rplus_0_r, <- (area_chasles m (IZR from - 1 / 2) (IZR from - 1 / 2 + INR n)
                             (IZR from - 1 / 2 + INR (S n))). f_equal.
    unfold cell, area. rewrite plus_IZR, <- INR_IZR_INZ, S_INR. f_equal; lra.
Qed.

Lemma cell_nonneg m k : 0 <= cell (fun x => bell (x - m)) k.
Proof. apply area_nonneg. lra. Qed.

Lemma cells_at_most m : at_most (cell (fun x => bell (x - m))) whole.
Proof.
  intros l Hl.
  assert (exists lo n, forall k, In k l -> (lo <= k < lo + Z.of_nat n)%Z) as (lo & n & Hin).
  { clear Hl. induction l as [|k l (lo & n & IH)]; [exists 0%Z, 0%nat; intros k []|].
    exists (Z.min lo k), (n + Z.to_nat (Z.abs (k - lo)) + 1)%nat.
    intros j [<-|Hj]; [|specialize (IH j Hj)]; lia. }
  apply Rle_trans with (sum (cell (fun x => bell (x - m))) (integers lo n)).
  - apply sum_incl; [apply cell_nonneg | exact Hl|].
    intros k Hk. apply in_integers, Hin, Hk.
  - rewrite cells_of_integers. apply area_le_whole. pose proof (pos_INR n). lra.
Qed.

(* --- The law -------------------------------------------------------------------------------- *)

Definition noise (k : Z) : R := cell bell k / whole.

(* What is released where the exact sum is m. *)
Definition noised (m k : Z) : R := noise (k - m).

Lemma noised_cell m k : noised m k = cell (fun x => bell (x - IZR m)) k / whole.
Proof.
  unfold noised, noise. f_equal. unfold cell at 2. fold (area (IZR m) (IZR k - 1 / 2) (IZR k + 1 / 2)).
  rewrite area_shift. unfold area, cell. rewrite minus_IZR.
  replace (IZR k - IZR m - 1 / 2) with (IZR k - 1 / 2 - IZR m) by ring.
  replace (IZR k - IZR m + 1 / 2) with (IZR k + 1 / 2 - IZR m) by ring.
  apply RInt_ext. intros x _. rewrite Rminus_0_r. reflexivity.
Qed.

Lemma noised_pos m k : 0 < noised m k.
Proof.
  rewrite noised_cell. apply Rdiv_lt_0_compat; [apply area_pos; lra | apply whole_pos].
Qed.

Lemma noised_law m : at_most (noised m) 1.
Proof.
  apply (at_most_ext (fun k => / whole * cell (fun x => bell (x - IZR m)) k)).
  - intros k. rewrite noised_cell. unfold Rdiv. ring.
  - replace 1 with (/ whole * whole) by (field; pose proof whole_pos; lra).
    apply at_most_scal, cells_at_most. left. apply Rinv_0_lt_compat, whole_pos.
Qed.

(* It is a law: the chances of -n, ..., n come as close to 1 as one likes. *)
Theorem noise_total : is_lim_seq (fun n => sum noise (integers (- Z.of_nat n) (2 * n + 1))) 1.
Proof.
  apply is_lim_seq_ext with (fun n => / whole * middle n).
  - intros n. unfold noise, Rdiv.
    rewrite (sum_ext _ (fun k => / whole * cell (fun x => bell (x - 0)) k)).
    + rewrite sum_scal, cells_of_integers. f_equal. unfold middle, half_way.
      rewrite opp_IZR, <- INR_IZR_INZ, plus_INR, mult_INR. cbn [INR]. f_equal; lra.
    + intros k _. rewrite Rmult_comm. f_equal. unfold cell. apply RInt_ext.
      intros x _. rewrite Rminus_0_r. reflexivity.
  - replace (Finite 1) with (Rbar_mult (/ whole) whole)
      by (cbn; f_equal; field; pose proof whole_pos; lra).
    apply is_lim_seq_scal_l, middle_limit.
Qed.

Theorem noised_is_law m : is_law (noised m).
Proof.
  split; [intros k; left; apply noised_pos|]. split; [apply noised_law|].
  intros e He. pose proof noise_total as H. apply is_lim_seq_spec in H.
  destruct (H (mkposreal e He)) as [n Hn]. specialize (Hn n (le_n n)). cbn [pos] in Hn.
  set (l := integers (- Z.of_nat n) (2 * n + 1)) in *.
  exists (map (fun k => k + m)%Z l). split.
  - apply Injective_map_NoDup; [intros a b E; cbn beta in E; lia|].
    apply Injective_map_NoDup; [intros a b E; cbn beta in E; lia | apply seq_NoDup].
  - rewrite sum_map. rewrite (sum_ext _ noise).
    + apply Rabs_def2 in Hn. lra.
    + intros k _. unfold noised. f_equal. lia.
Qed.

(* --- Its moment ----------------------------------------------------------------------------- *)

(* q (p/q)^alpha of two bells is a third one, times the moment. *)
Definition loss (d : R) : R := d * d / (2 * (sigma * sigma)).

Lemma third_bell al m1 m2 x :
  exp (- ((x - m2) * (x - m2)) / (2 * (sigma * sigma))
       + al * (- ((x - m1) * (x - m1)) / (2 * (sigma * sigma))
               - - ((x - m2) * (x - m2)) / (2 * (sigma * sigma))))
  = exp (al * (al - 1) * loss (m1 - m2)) * bell (x - (m2 + al * (m1 - m2))).
Proof.
  unfold bell, loss. rewrite <- exp_plus. f_equal. field. lra.
Qed.

(* Rounding loses nothing: Jensen's inequality in a cell, by the tangent at the ratio of the cells'
   areas. *)
Lemma cell_moment al m1 m2 k : 1 < al ->
  renyi al (cell (fun x => bell (x - m1)) k) (cell (fun x => bell (x - m2)) k)
  <= exp (al * (al - 1) * loss (m1 - m2)) * cell (fun x => bell (x - (m2 + al * (m1 - m2)))) k.
Proof.
  intros Hal. set (p := fun x => bell (x - m1)). set (q := fun x => bell (x - m2)).
  set (t := fun x => bell (x - (m2 + al * (m1 - m2)))).
  set (c := exp (al * (al - 1) * loss (m1 - m2))).
  assert (0 < cell p k) as HP by (apply area_pos; lra).
  assert (0 < cell q k) as HQ by (apply area_pos; lra).
  set (y := ln (cell p k / cell q k)).
  assert (exp y = cell p k / cell q k) as Hy by (apply exp_ln, Rdiv_lt_0_compat; assumption).
  unfold renyi, Rpower. fold y.
  (* pointwise, from Bernoulli at t = (p/q) / (P/Q) *)
  assert (forall x, exp (al * y) * (q x + al * (p x * exp (- y) - q x)) <= c * t x) as Hx.
  { intros x. subst c t. cbn beta. rewrite <- third_bell.
    unfold p, q, bell.
    set (u := - ((x - m1) * (x - m1)) / (2 * (sigma * sigma))).
    set (v := - ((x - m2) * (x - m2)) / (2 * (sigma * sigma))).
    replace (exp (v + al * (u - v))) with (exp (al * y) * (exp v * exp (al * (u - v - y))))
      by (rewrite <- !exp_plus; f_equal; ring).
    apply Rmult_le_compat_l; [left; apply exp_pos|].
    replace (exp v + al * (exp u * exp (- y) - exp v))
      with (exp v * (1 + al * (exp (u - v - y) - 1))).
    - apply Rmult_le_compat_l; [left; apply exp_pos | apply bernoulli, Hal].
    - rewrite <- exp_plus. replace (u + - y) with (v + (u - v - y)) by ring.
      rewrite (exp_plus v). ring. }
  assert (forall m, ex_RInt (fun x => bell (x - m)) (IZR k - 1 / 2) (IZR k + 1 / 2)) as Hi
    by (intros; apply bell_integrable).
  assert (is_RInt (fun x => exp (al * y) * (q x + al * (p x * exp (- y) - q x)))
            (IZR k - 1 / 2) (IZR k + 1 / 2)
            (exp (al * y) * (cell q k + al * (cell p k * exp (- y) - cell q k)))) as Hl.
  { pose proof (RInt_correct _ _ _ (Hi m1)) as H1. fold p in H1. fold (cell p k) in H1.
    pose proof (RInt_correct _ _ _ (Hi m2)) as H2. fold q in H2. fold (cell q k) in H2.
    apply (is_RInt_ext (fun x => scal (exp (al * y))
             (plus (q x) (scal al (minus (scal (exp (- y)) (p x)) (q x)))))).
    { intros x _. unfold scal, plus, minus, opp; cbn. unfold mult; cbn. ring. }
    replace (exp (al * y) * (cell q k + al * (cell p k * exp (- y) - cell q k)))
      with (scal (exp (al * y)) (plus (cell q k) (scal al
              (minus (scal (exp (- y)) (cell p k)) (cell q k)))))
      by (unfold scal, plus, minus, opp; cbn; unfold mult; cbn; ring).
    apply (is_RInt_scal (V := R_NormedModule)), (is_RInt_plus (V := R_NormedModule)); [exact H2|].
    apply (is_RInt_scal (V := R_NormedModule)), (is_RInt_minus (V := R_NormedModule)); [|exact H2].
    apply (is_RInt_scal (V := R_NormedModule)), H1. }
  assert (is_RInt (fun x => c * t x) (IZR k - 1 / 2) (IZR k + 1 / 2) (c * cell t k)) as Hr.
  { apply (is_RInt_scal (V := R_NormedModule)). apply (RInt_correct (V := R_CompleteNormedModule)).
    apply Hi. }
  apply Rle_trans with (exp (al * y) * (cell q k + al * (cell p k * exp (- y) - cell q k))).
  - right. rewrite exp_Ropp, Hy. field. lra.
  - refine (is_RInt_le _ _ _ _ _ _ _ Hl Hr _); [lra | intros x _; apply Hx].
Qed.

Theorem noise_zcdp m1 m2 : zcdp (loss (IZR (m1 - m2))) (noised m1) (noised m2).
Proof.
  assert (forall al m1 m2, 1 < al ->
    moment_at_most al (noised m1) (noised m2) (exp (al * (al - 1) * loss (IZR (m1 - m2))))) as H.
  { clear m1 m2. intros al m1 m2 Hal. set (c := exp (al * (al - 1) * loss (IZR (m1 - m2)))).
    pose proof whole_pos as Hw. intros l Hl.
    set (third := fun k => cell (fun x => bell (x - (IZR m2 + al * (IZR m1 - IZR m2)))) k).
    apply Rle_trans with (sum (fun k => c / whole * third k) l).
    - apply sum_le. intros k. rewrite !noised_cell.
      set (p := cell (fun x => bell (x - IZR m1)) k). set (q := cell (fun x => bell (x - IZR m2)) k).
      assert (0 < q) as Hq by (apply area_pos; lra).
      replace (renyi al (p / whole) (q / whole)) with (/ whole * renyi al p q).
      + unfold Rdiv. rewrite (Rmult_comm c), Rmult_assoc.
        apply Rmult_le_compat_l; [left; apply Rinv_0_lt_compat, Hw|].
        unfold c. rewrite minus_IZR. apply cell_moment, Hal.
      + unfold renyi. replace (p / whole / (q / whole)) with (p / q) by (field; lra).
        unfold Rdiv. ring.
    - rewrite sum_scal. replace c with (c / whole * whole) at 2 by (field; lra).
      apply Rmult_le_compat_l; [|apply cells_at_most, Hl].
      apply Rlt_le, Rdiv_lt_0_compat; [apply exp_pos | exact Hw]. }
  split; [left; split; apply noised_pos|].
  intros al Hal. split; [apply H, Hal|].
  replace (loss (IZR (m1 - m2))) with (loss (IZR (m2 - m1))); [apply H, Hal|].
  unfold loss. rewrite !minus_IZR. unfold Rdiv. f_equal. ring.
Qed.
End Sigma.

(* --- A vector of answers, each with noise of its own ---------------------------------------- *)

(* The chance of each vector where the exact sums are [sums]. *)
Fixpoint answers (sigmas : list R) (sums : list Z) : list Z -> R :=
  match sigmas with
  | [] => nothing
  | s :: more => after_head (noised s (hd 0%Z sums)) (fun _ => answers more (tl sums))
  end.

(* What a difference of the sums loses. *)
Fixpoint losses (sigmas : list R) (difference : list Z) : R :=
  match sigmas with
  | [] => 0
  | s :: more => loss s (IZR (hd 0%Z difference)) + losses more (tl difference)
  end.

Fixpoint minus_each (a b : list Z) (n : nat) : list Z :=
  match n with
  | O => []
  | S m => (hd 0 a - hd 0 b)%Z :: minus_each (tl a) (tl b) m
  end.

Theorem noises_zcdp sigmas : List.Forall (fun s => 0 < s) sigmas -> forall a b,
  zcdp (losses sigmas (minus_each a b (length sigmas))) (answers sigmas a) (answers sigmas b).
Proof.
  induction 1 as [|s sigmas Hs _ IH]; intros a b; cbn [answers losses minus_each length hd tl].
  - apply zcdp_same; [lra | apply nothing_nonneg | apply nothing_law].
  - apply (zcdp_after_head Z.eq_dec); [apply noise_zcdp, Hs|]. intros _. apply IH.
Qed.

Theorem answers_law sigmas : List.Forall (fun s => 0 < s) sigmas -> forall a,
  is_law (answers sigmas a).
Proof.
  induction 1 as [|s sigmas Hs _ IH]; intros a; cbn [answers].
  - apply nothing_is_law.
  - apply (after_head_is_law Z.eq_dec); [apply noised_is_law, Hs | intros _; apply IH].
Qed.
