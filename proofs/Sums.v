(* Sums of non-negative numbers over sets without an order, and Rényi moments.

   [at_most f b] says that the sum of [f] over all of a type is at most [b]: every finite part of it
   is. Where the type is countable this is the sum of the series, however it is numbered
   ([at_most_series], [series_at_most]). *)
From Coq Require Import Reals Lra List Lia FinFun.
From Coquelicot Require Import Coquelicot.
Import ListNotations.
Open Scope R_scope.

Fixpoint sum {A : Type} (f : A -> R) (l : list A) : R :=
  match l with [] => 0 | x :: r => f x + sum f r end.

Definition at_most {A : Type} (f : A -> R) (b : R) : Prop :=
  forall l, NoDup l -> sum f l <= b.

Definition decidable_equality (A : Type) := forall x y : A, {x = y} + {x <> y}.

Section Finite.
Context {A : Type}.
Implicit Types (f g : A -> R) (l : list A).

Lemma sum_nonneg f l : (forall x, 0 <= f x) -> 0 <= sum f l.
Proof. intros H. induction l as [|x r IH]; cbn; [lra|]. specialize (H x). lra. Qed.

Lemma sum_le f g l : (forall x, f x <= g x) -> sum f l <= sum g l.
Proof. intros H. induction l as [|x r IH]; cbn; [lra|]. specialize (H x). lra. Qed.

Lemma sum_ext f g l : (forall x, In x l -> f x = g x) -> sum f l = sum g l.
Proof.
  induction l as [|x r IH]; cbn; intros H; [reflexivity|].
  rewrite (H x), IH; auto.
Qed.

Lemma sum_scal c f l : sum (fun x => c * f x) l = c * sum f l.
Proof. induction l as [|x r IH]; cbn; [ring|]. rewrite IH. ring. Qed.

Lemma sum_plus f g l : sum (fun x => f x + g x) l = sum f l + sum g l.
Proof. induction l as [|x r IH]; cbn; [ring|]. rewrite IH. ring. Qed.

Lemma sum_app f l m : sum f (l ++ m) = sum f l + sum f m.
Proof. induction l as [|x r IH]; cbn; [ring|]. rewrite IH. ring. Qed.

Lemma sum_map {B : Type} (h : B -> A) f m : sum f (map h m) = sum (fun x => f (h x)) m.
Proof. induction m as [|x r IH]; cbn; [reflexivity|]. rewrite IH. reflexivity. Qed.

Lemma sum_zero f l : (forall x, In x l -> f x = 0) -> sum f l = 0.
Proof.
  induction l as [|x r IH]; cbn; intros H; [reflexivity|].
  rewrite (H x), IH; auto. ring.
Qed.

Lemma sum_incl f l m :
  (forall x, 0 <= f x) -> NoDup l -> incl l m -> sum f l <= sum f m.
Proof.
  intros Hf Hl. revert m. induction Hl as [|x r Hx _ IH]; intros m Hm; cbn.
  - apply sum_nonneg, Hf.
  - destruct (in_split x m) as (a & b & ->); [apply Hm; left; reflexivity|].
    assert (sum f r <= sum f (a ++ b)) as H.
    { apply IH. intros y Hy. specialize (Hm y (or_intror Hy)).
      rewrite in_app_iff in *. cbn in Hm. destruct Hm as [|[->|]]; auto. contradiction. }
    rewrite sum_app in *. cbn. lra.
Qed.

Lemma at_most_ext f g b : (forall x, f x = g x) -> at_most f b -> at_most g b.
Proof. intros E H l Hl. rewrite (sum_ext g f) by auto. exact (H l Hl). Qed.

Lemma at_most_weaken f a b : a <= b -> at_most f a -> at_most f b.
Proof. intros H Hf l Hl. specialize (Hf l Hl). lra. Qed.

Lemma at_most_nonneg f b : at_most f b -> 0 <= b.
Proof. intros H. exact (H [] (NoDup_nil A)). Qed.

Lemma at_most_scal c f b : 0 <= c -> at_most f b -> at_most (fun x => c * f x) (c * b).
Proof.
  intros Hc H l Hl. rewrite sum_scal. apply Rmult_le_compat_l; [exact Hc | exact (H l Hl)].
Qed.

(* It is no less than 1, either: some finite part comes as close as one likes. *)
Definition makes_one f : Prop := forall e, 0 < e -> exists l, NoDup l /\ 1 - e < sum f l.

(* The chances of all outcomes. *)
Definition is_law f : Prop := (forall x, 0 <= f x) /\ at_most f 1 /\ makes_one f.

Lemma NoDup_both l m : NoDup l -> NoDup m -> (forall x, In x l -> ~ In x m) -> NoDup (l ++ m).
Proof.
  intros Hl Hm. induction Hl as [|x r Hx _ IH]; intros H; cbn; [exact Hm|]. constructor.
  - rewrite in_app_iff. intros [Hr|Hr]; [contradiction | apply (H x); [left|]; auto].
  - apply IH. intros y Hy. apply H. right. exact Hy.
Qed.

(* All of a type, in one point. *)
Lemma at_most_point f x b :
  (forall y, y <> x -> f y = 0) -> 0 <= f x -> f x <= b -> at_most f b.
Proof.
  intros H0 Hx Hb l Hl. apply Rle_trans with (f x); [|exact Hb]. clear b Hb.
  induction Hl as [|y r Hy Hr IH]; cbn; [exact Hx|].
  destruct (Req_dec (f y) 0) as [E|E]; [lra|].
  assert (sum f r = 0) as ->.
  { apply sum_zero. intros z Hz. apply H0. intros ->.
    apply E, H0. intros ->. contradiction. }
  destruct (Req_dec (f y) (f x)) as [->|N]; [lra|].
  exfalso. apply E, H0. intros ->. apply N. reflexivity.
Qed.
End Finite.

(* --- What it has to do with series --------------------------------------------------------- *)

Section Series.
Context {A : Type}.

Lemma sum_n_list (f : nat -> R) n : sum_n f n = sum f (seq 0 (S n)).
Proof.
  induction n as [|n IH]; [rewrite sum_O; cbn; ring|].
  rewrite sum_Sn, IH, (seq_S (S n)), sum_app. cbn. unfold plus. cbn. ring.
Qed.

Theorem at_most_series (f : A -> R) (b : R) (number : nat -> A) :
  (forall i j, number i = number j -> i = j) -> (forall x, 0 <= f x) -> at_most f b ->
  ex_series (fun i => f (number i)) /\ Series (fun i => f (number i)) <= b.
Proof.
  intros Hinj Hf Hb.
  assert (forall n, sum_n (fun i => f (number i)) n <= b) as H.
  { intros n. rewrite sum_n_list, <- (sum_map number f). apply Hb.
    apply Injective_map_NoDup; [exact Hinj | apply seq_NoDup]. }
  assert (ex_finite_lim_seq (sum_n (fun i => f (number i)))) as [s Hs].
  { apply ex_finite_lim_seq_incr with b; [|exact H].
    intros n. rewrite sum_Sn. unfold plus. cbn. specialize (Hf (number (S n))). lra. }
  split; [exists s; exact Hs|].
  rewrite (is_series_unique _ s Hs).
  exact (is_lim_seq_le _ (fun _ => b) s b H Hs (is_lim_seq_const b)).
Qed.

Theorem series_at_most (f : A -> R) (s : R) (number : nat -> A) :
  (forall x, exists i, number i = x) -> (forall x, 0 <= f x) ->
  (forall i j, number i = number j -> i = j) ->
  is_series (fun i => f (number i)) s -> at_most f s.
Proof.
  intros Hsurj Hf Hinj Hs l Hl.
  assert (exists n, incl l (map number (seq 0 (S n)))) as [n Hn].
  { clear Hl. induction l as [|x r [n Hn]]; [exists 0%nat; intros x []|].
    destruct (Hsurj x) as [i <-]. exists (n + i)%nat. intros y [<-|Hy].
    - apply in_map, in_seq. lia.
    - apply Hn, in_map_iff in Hy. destruct Hy as (j & <- & Hj). apply in_map.
      apply in_seq in Hj. apply in_seq. lia. }
  apply Rle_trans with (sum f (map number (seq 0 (S n)))).
  - apply sum_incl; assumption.
  - rewrite sum_map, <- sum_n_list.
    apply (is_lim_seq_incr_compare (sum_n (fun i => f (number i)))); [exact Hs|].
    intros k. rewrite sum_Sn. unfold plus. cbn. specialize (Hf (number (S k))). lra.
Qed.
End Series.

(* --- Sums over lists: a head, and then a tail --------------------------------------------- *)

Section Lists.
Context {O : Type}.
Variable eq_dec : decidable_equality O.

Definition tails_of (x : O) (l : list (list O)) : list (list O) :=
  flat_map (fun t => match t with
                     | [] => []
                     | y :: r => if eq_dec x y then [r] else []
                     end) l.

Lemma in_tails x r l : In r (tails_of x l) <-> In (x :: r) l.
Proof.
  unfold tails_of. rewrite in_flat_map. split.
  - intros ([|y t] & Hin & Hr); [destruct Hr|].
    destruct (eq_dec x y) as [->|]; [|destruct Hr]. destruct Hr as [->|[]]. exact Hin.
  - intros H. exists (x :: r). split; [exact H|].
    destruct (eq_dec x x); [left; reflexivity | contradiction].
Qed.

Lemma tails_NoDup x l : NoDup l -> NoDup (tails_of x l).
Proof.
  induction 1 as [|t l Ht _ IH]; cbn; [constructor|].
  destruct t as [|y r]; [exact IH|].
  destruct (eq_dec x y) as [->|]; [|exact IH].
  cbn. constructor; [|exact IH]. intros H. apply Ht, (in_tails y r l), H.
Qed.

Definition heads (l : list (list O)) : list O :=
  nodup eq_dec (flat_map (fun t => match t with [] => [] | x :: _ => [x] end) l).

Lemma at_most_cons (f : O -> R) (g : O -> list O -> R) (F : list O -> R) (a b : R) :
  (forall x, 0 <= f x) -> (forall x r, 0 <= g x r) -> 0 <= b ->
  F [] = 0 -> (forall x r, F (x :: r) = f x * g x r) ->
  at_most f a -> (forall x, at_most (g x) b) -> at_most F (a * b).
Proof.
  intros Hf Hg Hb F0 F1 Ha Hgb l Hl.
  set (whole := flat_map (fun x => map (cons x) (tails_of x l)) (heads l)).
  assert (forall t, 0 <= F t) as HF.
  { intros [|x r]; [lra|]. rewrite F1. apply Rmult_le_pos; auto. }
  assert (sum F l <= sum F ([] :: whole)) as H1.
  { apply sum_incl; [exact HF | exact Hl|]. intros [|x r] Ht; [left; reflexivity|right].
    apply in_flat_map. exists x. split.
    - apply nodup_In, in_flat_map. exists (x :: r). split; [exact Ht | left; reflexivity].
    - apply in_map, in_tails, Ht. }
  assert (forall m, sum F (flat_map (fun x => map (cons x) (tails_of x l)) m)
                    <= sum f m * b) as H2.
  { induction m as [|x m IH]; cbn; [lra|]. rewrite sum_app, sum_map.
    assert (sum (fun r => F (x :: r)) (tails_of x l) <= f x * b).
    { rewrite (sum_ext _ (fun r => f x * g x r)) by auto. rewrite sum_scal.
      apply Rmult_le_compat_l; [apply Hf | apply Hgb, tails_NoDup, Hl]. }
    lra. }
  specialize (H2 (heads l)). cbn [sum] in H1. fold whole in H2. rewrite F0 in H1.
  assert (sum f (heads l) * b <= a * b); [|lra].
  apply Rmult_le_compat_r; [exact Hb | apply Ha, NoDup_nodup].
Qed.
End Lists.

(* --- Rényi moments, and zCDP of two laws on one countable type ----------------------------- *)

(* Of one outcome that has chance p in one world, and q in the other. *)
Definition renyi (al p q : R) : R := q * Rpower (p / q) al.

Definition alike (p q : R) : Prop := (0 < p /\ 0 < q) \/ (p = 0 /\ q = 0).

Definition moment_at_most {T : Type} (al : R) (P Q : T -> R) (b : R) : Prop :=
  at_most (fun t => renyi al (P t) (Q t)) b.

(* Every order above 1, in both directions: Bun & Steinke 2016. *)
Definition zcdp {T : Type} (rho : R) (P Q : T -> R) : Prop :=
  (forall t, alike (P t) (Q t)) /\
  forall al, 1 < al ->
    moment_at_most al P Q (exp (al * (al - 1) * rho)) /\
    moment_at_most al Q P (exp (al * (al - 1) * rho)).

Lemma alike_sym p q : alike p q -> alike q p.
Proof. unfold alike. tauto. Qed.

Lemma alike_mul a b p q : alike a b -> alike p q -> alike (a * p) (b * q).
Proof.
  intros [[H1 H2]|[-> ->]] [[H3 H4]|[-> ->]];
    try (right; split; ring); left; split; apply Rmult_lt_0_compat; assumption.
Qed.

Lemma alike_nonneg p q : alike p q -> 0 <= p.
Proof. intros [[]|[]]; lra. Qed.

Lemma renyi_nonneg al p q : 0 <= q -> 0 <= renyi al p q.
Proof. intros H. apply Rmult_le_pos; [exact H | left; apply exp_pos]. Qed.

Lemma Rpower_1_l al : Rpower 1 al = 1.
Proof. unfold Rpower. rewrite ln_1, Rmult_0_r. apply exp_0. Qed.

Lemma renyi_same al q : alike q q -> renyi al q q = q.
Proof.
  intros [[H _]|[-> _]]; unfold renyi; [|ring].
  replace (q / q) with 1 by (field; lra). rewrite Rpower_1_l. ring.
Qed.

Lemma renyi_mul al a b p q : alike a b -> alike p q ->
  renyi al (a * p) (b * q) = renyi al a b * renyi al p q.
Proof.
  unfold renyi. intros [[Ha Hb]|[-> ->]] [[Hp Hq]|[-> ->]]; try ring.
  replace (a * p / (b * q)) with ((a / b) * (p / q)) by (field; lra).
  rewrite <- Rpower_mult_distr; [ring | |]; apply Rdiv_lt_0_compat; assumption.
Qed.

Lemma zcdp_weaken {T} rho rho' (P Q : T -> R) : rho <= rho' -> zcdp rho P Q -> zcdp rho' P Q.
Proof.
  intros H [Ha Hm]. split; [exact Ha|]. intros al Hal. destruct (Hm al Hal) as [H1 H2].
  assert (exp (al * (al - 1) * rho) <= exp (al * (al - 1) * rho')).
  { destruct (Rmult_le_compat_l (al * (al - 1)) rho rho') as [E|E];
      [apply Rmult_le_pos; lra | exact H | left; apply exp_increasing, E | rewrite E; lra]. }
  split; eapply at_most_weaken; eassumption.
Qed.

Lemma zcdp_ext {T} rho (P Q P' Q' : T -> R) :
  (forall t, P t = P' t) -> (forall t, Q t = Q' t) -> zcdp rho P Q -> zcdp rho P' Q'.
Proof.
  intros HP HQ [Ha Hm]. split; [intros t; rewrite <- HP, <- HQ; apply Ha|].
  intros al Hal. destruct (Hm al Hal) as [H1 H2].
  split; unfold moment_at_most.
  - eapply at_most_ext; [|exact H1]. intros t. cbn. rewrite HP, HQ. reflexivity.
  - eapply at_most_ext; [|exact H2]. intros t. cbn. rewrite HP, HQ. reflexivity.
Qed.

Lemma zcdp_sym {T} rho (P Q : T -> R) : zcdp rho P Q -> zcdp rho Q P.
Proof.
  intros [Ha Hm]. split; [intros t; apply alike_sym, Ha|].
  intros al Hal. destruct (Hm al Hal). split; assumption.
Qed.

(* Nothing is lost where both worlds are the same. *)
Lemma zcdp_same {T} rho (Q : T -> R) :
  0 <= rho -> (forall t, 0 <= Q t) -> at_most Q 1 -> zcdp rho Q Q.
Proof.
  intros Hr Hq H1.
  assert (forall t, alike (Q t) (Q t)) as Ha.
  { intros t. destruct (Hq t) as [H|H]; [left | right]; auto. }
  apply zcdp_weaken with 0; [exact Hr|]. split; [exact Ha|]. intros al _.
  unfold moment_at_most. rewrite Rmult_0_r, exp_0.
  split; apply (at_most_ext Q); auto; intros t; symmetry; apply renyi_same, Ha.
Qed.

(* One after the other: what is released first decides how the rest is made. *)
Section Compose.
Context {O : Type}.
Variable eq_dec : decidable_equality O.

Definition after_head (p : O -> R) (g : O -> list O -> R) (t : list O) : R :=
  match t with [] => 0 | x :: r => p x * g x r end.

Lemma after_head_nonneg p g t :
  (forall x, 0 <= p x) -> (forall x r, 0 <= g x r) -> 0 <= after_head p g t.
Proof. intros Hp Hg. destruct t; cbn; [lra | apply Rmult_le_pos; auto]. Qed.

Lemma after_head_law p g :
  (forall x, 0 <= p x) -> (forall x r, 0 <= g x r) ->
  at_most p 1 -> (forall x, at_most (g x) 1) -> at_most (after_head p g) 1.
Proof.
  intros. replace 1 with (1 * 1) by ring.
  apply (at_most_cons eq_dec p g); auto; lra.
Qed.

Lemma zcdp_after_head r1 r2 (p q : O -> R) (f g : O -> list O -> R) :
  zcdp r1 p q -> (forall x, zcdp r2 (f x) (g x)) ->
  zcdp (r1 + r2) (after_head p f) (after_head q g).
Proof.
  intros [Ha Hm] Hr. split.
  - intros [|x r]; cbn; [right; auto|]. apply alike_mul; [apply Ha | apply Hr].
  - intros al Hal. rewrite Rmult_plus_distr_l, exp_plus.
    split; unfold moment_at_most.
    + apply (at_most_cons eq_dec (fun x => renyi al (p x) (q x))
               (fun x r => renyi al (f x r) (g x r))); cbn.
      * intros x. apply renyi_nonneg, (alike_nonneg _ _ (alike_sym _ _ (Ha x))).
      * intros x r. apply renyi_nonneg.
        apply (alike_nonneg _ _ (alike_sym _ _ (proj1 (Hr x) r))).
      * left. apply exp_pos.
      * unfold renyi. ring.
      * intros x r. apply renyi_mul; [apply Ha | apply Hr].
      * apply Hm, Hal.
      * intros x. apply Hr, Hal.
    + apply (at_most_cons eq_dec (fun x => renyi al (q x) (p x))
               (fun x r => renyi al (g x r) (f x r))); cbn.
      * intros x. apply renyi_nonneg, (alike_nonneg _ _ (Ha x)).
      * intros x r. apply renyi_nonneg, (alike_nonneg _ _ (proj1 (Hr x) r)).
      * left. apply exp_pos.
      * unfold renyi. ring.
      * intros x r. apply renyi_mul; apply alike_sym; [apply Ha | apply Hr].
      * apply Hm, Hal.
      * intros x. apply Hr, Hal.
Qed.

(* A law has all of its mass somewhere: 1 in all. *)
Lemma one_after_head p g :
  (forall x, 0 <= p x) -> (forall x r, 0 <= g x r) ->
  makes_one p -> (forall x, makes_one (g x)) -> makes_one (after_head p g).
Proof.
  intros Hp Hg H1 H2 e He.
  destruct (H1 (Rmin (e / 2) 1)) as (l & Hl & Hs).
  { apply Rmin_glb_lt; lra. }
  pose proof (Rmin_l (e / 2) 1). pose proof (Rmin_r (e / 2) 1).
  set (d := Rmin (e / 2) 1) in *.
  assert (0 < d) as Hd by (apply Rmin_glb_lt; lra).
  assert (exists m, NoDup m /\ (forall t, In t m -> exists x r, t = x :: r /\ In x l) /\
                    sum p l * (1 - d) <= sum (after_head p g) m) as (m & Hm & _ & Hsum).
  { clear Hs. induction Hl as [|x l Hx _ (m & Hm & Hin & IH)].
    - exists []. cbn. split; [constructor|]. split; [intros t []|lra].
    - destruct (H2 x d Hd) as (n & Hn & Hsn).
      exists (map (cons x) n ++ m). split; [|split].
      + apply NoDup_both; [|exact Hm|].
        * apply Injective_map_NoDup; [intros a b E; injection E; auto | exact Hn].
        * intros t Ht Hm'. apply in_map_iff in Ht. destruct Ht as (r & <- & _).
          destruct (Hin _ Hm') as (y & r' & E & Hy). injection E as -> _. contradiction.
      + intros t Ht. apply in_app_iff in Ht. destruct Ht as [Ht|Ht].
        * apply in_map_iff in Ht. destruct Ht as (r & <- & _). exists x, r. cbn. auto.
        * destruct (Hin t Ht) as (y & r & -> & Hy). exists y, r. cbn. auto.
      + rewrite sum_app, sum_map. cbn [sum].
        rewrite (sum_ext _ (fun r => p x * g x r)) by reflexivity. rewrite sum_scal.
        assert (p x * (1 - d) <= p x * sum (g x) n) by (apply Rmult_le_compat_l; [apply Hp | lra]).
        lra. }
  exists m. split; [exact Hm|].
  assert ((1 - d) * (1 - d) <= sum p l * (1 - d)) by (apply Rmult_le_compat_r; lra).
  assert (0 < d * d) by (apply Rmult_lt_0_compat; lra). lra.
Qed.

(* The law that has everything in the empty list: nothing was released. *)
Definition nothing (t : list O) : R := match t with [] => 1 | _ => 0 end.

Lemma nothing_law : at_most nothing 1.
Proof. apply (at_most_point _ []); cbn; try lra. intros [|]; [contradiction | reflexivity]. Qed.

Lemma nothing_one : makes_one nothing.
Proof.
  intros e He. exists [[]]. cbn. split; [repeat constructor; intros [] | lra].
Qed.

Lemma nothing_nonneg t : 0 <= nothing t.
Proof. destruct t; cbn; lra. Qed.

Lemma nothing_is_law : is_law nothing.
Proof. split; [apply nothing_nonneg | split; [apply nothing_law | apply nothing_one]]. Qed.

Lemma after_head_is_law p g :
  is_law p -> (forall x, is_law (g x)) -> is_law (after_head p g).
Proof.
  intros (H0 & H1 & H2) Hg. split; [|split].
  - intros t. apply after_head_nonneg; [exact H0 | intros x; apply Hg].
  - apply after_head_law; auto; intros; apply Hg.
  - apply one_after_head; auto; intros; apply Hg.
Qed.
End Compose.

(* What zCDP says in series: in whatever order outcomes are numbered, the moments' series converge,
   and are no more than that. *)
Theorem zcdp_series {T : Type} rho (P Q : T -> R) (number : nat -> T) :
  zcdp rho P Q -> (forall i j, number i = number j -> i = j) -> forall al, 1 < al ->
  (ex_series (fun i => renyi al (P (number i)) (Q (number i))) /\
   Series (fun i => renyi al (P (number i)) (Q (number i))) <= exp (al * (al - 1) * rho)) /\
  (ex_series (fun i => renyi al (Q (number i)) (P (number i))) /\
   Series (fun i => renyi al (Q (number i)) (P (number i))) <= exp (al * (al - 1) * rho)).
Proof.
  intros [Ha Hm] Hinj al Hal. destruct (Hm al Hal) as [H1 H2].
  split.
  - apply (at_most_series (fun t => renyi al (P t) (Q t))); [exact Hinj| |exact H1].
    intros t. apply renyi_nonneg, (alike_nonneg _ (P t)), alike_sym, Ha.
  - apply (at_most_series (fun t => renyi al (Q t) (P t))); [exact Hinj| |exact H2].
    intros t. apply renyi_nonneg, (alike_nonneg _ (Q t)), Ha.
Qed.
