(* The gate, in whole numbers: what sparseq/stream/release_charges.py, sparseq/ledger/lifetimes.py and
   sparseq/ledger/purposes.py do, written out again. Sound.v proves that it pays; Judge.v makes a
   program of it, which tests hold against the Python. *)
From Coq Require Import List NArith ZArith Bool.
From Sparseq Require Import Vectors.
Import ListNotations.
Open Scope N_scope.

(* --- Prices --------------------------------------------------------------------------------- *)

Record fraction := Fraction { over : N; under : positive }.

(* A measure of a question: how many values it has, and the price of a squared lattice step, exactly:
   g^2 (sigma_0/sigma)^2 2^24 units. All public. *)
Record measure := Measure { cells : nat; exact : fraction }.

Definition ceil_div (a b : N) : N := (a + (b - 1)) / b.

(* The least number that is not below, and has at most 11 significant bits. *)
Definition round_up (c : N) : N :=
  let step := 2 ^ (N.size c - 11) in ceil_div c step * step.

(* The price rounded up to 62 bits: P and s, for P / 2^s. *)
Definition rate (r : fraction) : N * N :=
  let enough s := 2 ^ 61 * Npos (under r) <=? over r * 2 ^ s in
  let s := 60 + N.log2 (Npos (under r)) - N.log2 (over r) in
  let s := if enough s then s else if enough (s + 1) then s + 1 else s + 2 in
  (ceil_div (over r * 2 ^ s) (Npos (under r)), s).

Fixpoint squares (v : vector) : N :=
  match v with [] => 0 | x :: r => Z.to_N (x * x) + squares r end.

(* Exactly n coordinates. *)
Fixpoint fit (n : nat) (v : vector) : vector :=
  match n with O => [] | S k => hd 0%Z v :: fit k (tl v) end.

Definition at_price (r : fraction) (norm : N) : N :=
  let (p, s) := rate r in ceil_div (norm * p) (2 ^ s).

Definition charge (m : measure) (v : vector) : N := at_price (exact m) (squares (fit (cells m) v)).

(* A person's vectors, one a measure. *)
Fixpoint charges (q : list measure) (x : list vector) : N :=
  match q with [] => 0 | m :: r => charge m (hd [] x) + charges r (tl x) end.

Fixpoint flat (q : list measure) (x : list vector) : vector :=
  match q with [] => [] | m :: r => fit (cells m) (hd [] x) ++ flat r (tl x) end.

Definition price (q : list measure) (x : list vector) : N := round_up (charges q x).

(* --- Algorithm 2: in or out ----------------------------------------------------------------- *)

(* What one person has after it, and adds. *)
Definition in_or_out (halt : bool) (q : list measure) (x : list vector) (left : N) : N * vector :=
  let cost := price q x in
  if cost <=? left then (left - cost, flat q x) else (if halt then 0 else left, []).

(* --- Weighted: part by part, rounded up once ------------------------------------------------- *)

Record owing := Owing { left : N; owed : N }.

Definition admit (due : N) (v : vector) (a : owing) : owing * vector :=
  if round_up (owed a + due) <=? left a then (Owing (left a) (owed a + due), v) else (a, []).

Definition settle (a : owing) : owing := Owing (left a - round_up (owed a)) 0.

(* A pilot: whole numbers, at the exact price. *)
Definition pilot_due (m : measure) (v : vector) : N :=
  ceil_div (squares (fit (cells m) v) * over (exact m)) (Npos (under (exact m))).

Definition pilot (m : measure) (v : vector) (a : owing) : owing * vector :=
  admit (pilot_due m v) (fit (cells m) v) a.

(* Weighted sums of a measure: the lattice of its values is [finer] times that of its sums, and that
   is [fixed] times the one at which weights are priced. *)
Record summed := Summed { sum_of : measure; finer : fraction; fixed : positive * positive }.

Definition weighed (w : fraction) (m : summed) (v : vector) : vector :=
  map (fun x => Z.quot (x * Z.of_N (over w * over (finer m))) (Zpos (under w * under (finer m))))
      (fit (cells (sum_of m)) v).

(* The price of a squared step of that lattice: less by the square of [fixed]. *)
Definition price_at_fixed (m : summed) : fraction :=
  let (p, r) := (exact (sum_of m), fixed m) in
  Fraction (over p * Npos (snd r * snd r)) (under p * (fst r * fst r)).

(* The weighted norm in those steps, rounded up, at that price. *)
Definition due_of (w : fraction) (m : summed) (v : vector) : N :=
  let a := over w * over (finer m) * Npos (fst (fixed m)) in
  let b := Npos (under w * under (finer m) * snd (fixed m)) in
  at_price (price_at_fixed m)
    (ceil_div (squares (fit (cells (sum_of m)) v) * (a * a)) (b * b)).

Fixpoint dues (w : fraction) (q : list summed) (x : list vector) : N :=
  match q with [] => 0 | m :: r => due_of w m (hd [] x) + dues w r (tl x) end.

Fixpoint all_weighed (w : fraction) (q : list summed) (x : list vector) : vector :=
  match q with [] => [] | m :: r => weighed w m (hd [] x) ++ all_weighed w r (tl x) end.

Definition sums (w : fraction) (q : list summed) (x : list vector) (a : owing) : owing * vector :=
  admit (dues w q x) (all_weighed w q x) a.

(* --- Parts of a budget by purpose ------------------------------------------------------------ *)

(* What one unit of a part is worth, and what is there of it. *)
Record pot := Pot { worth_of_one : fraction; account : owing }.

Definition same (a b : fraction) : bool :=
  ((over a =? over b) && (under a =? under b)%positive)%bool.

(* A step that is paid from part j, whose units are worth [one]: nobody pays in other units. *)
Fixpoint from_pot (j : nat) (one : fraction) (pay : owing -> owing * vector) (pots : list pot)
  {struct pots} : list pot * vector :=
  match pots, j with
  | [], _ => ([], [])
  | p :: r, O =>
      if same one (worth_of_one p)
      then let (a, v) := pay (account p) in (Pot (worth_of_one p) a :: r, v)
      else (p :: r, [])
  | p :: r, S i => let (r', v) := from_pot i one pay r in (p :: r', v)
  end.

(* In or out, of an account that may owe something. *)
Definition wholly (halt : bool) (q : list measure) (x : list vector) (a : owing)
  : owing * vector :=
  let (u, v) := in_or_out halt q x (left (settle a)) in (Owing u 0, v).

(* A part that comes later: a share of what is left in the first, at its own worth, rounded down. *)
Definition part_off (share one : fraction) (most : N) (pots : list pot) : list pot :=
  match pots with
  | [] => []
  | p :: r =>
      let there := left (settle (account p)) in
      let taken := N.min (there * over share / Npos (under share)) there in
      let given := taken * over (worth_of_one p) * Npos (under one)
                   / (Npos (under (worth_of_one p)) * over one) in
      Pot (worth_of_one p) (Owing (there - taken) 0) :: r ++ [Pot one (Owing (N.min given most) 0)]
  end.

(* --- Windows of a person, and a cap for life -------------------------------------------------- *)

Record lived := Lived { windows : list N; for_life : N }.

(* Of each window: what it costs and adds, if its own account can pay. *)
Fixpoint able (q : list measure) (xs : list (list vector)) (left : list N)
  : list (option (N * vector)) :=
  match xs, left with
  | x :: xs', l :: left' =>
      (if price q x <=? l then Some (price q x, flat q x) else None) :: able q xs' left'
  | _, _ => []
  end.

Fixpoint pay_each (taken : list (option (N * vector))) (left : list N) : list N :=
  match taken, left with
  | Some (c, _) :: r, l :: s => (l - c) :: pay_each r s
  | None :: r, l :: s => l :: pay_each r s
  | [], _ => left
  | _, [] => []
  end.

Definition vectors (taken : list (option (N * vector))) : list vector :=
  flat_map (fun t => match t with Some (_, v) => [v] | None => [] end) taken.

(* Values may add up windows: all of them that can pay, or none, for the square of the roots' sum. *)
Definition roots (taken : list (option (N * vector))) : N :=
  fold_right (fun t s => match t with Some (c, _) => N.sqrt_up c + s | None => s end) 0 taken.

Definition together (q : list measure) (xs : list (list vector)) (a : lived) : lived * vector :=
  let taken := able q xs (windows a) in
  let cost := roots taken * roots taken in
  if cost <=? for_life a
  then (Lived (pay_each taken (windows a)) (for_life a - cost), total (vectors taken))
  else (a, []).

(* No value adds up two windows: one after the other, until one can't be paid; then never again. *)
Fixpoint in_turn (taken : list (option (N * vector))) (life : N)
  : list (option (N * vector)) * N :=
  match taken with
  | [] => ([], life)
  | None :: r => let (t, l) := in_turn r life in (None :: t, l)
  | Some (c, v) :: r =>
      if c <=? life then let (t, l) := in_turn r (life - c) in (Some (c, v) :: t, l)
      else ([], 0)
  end.

Definition apart (q : list measure) (xs : list (list vector)) (a : lived) : lived * vector :=
  let (taken, life) := in_turn (able q xs (windows a)) (for_life a) in
  (Lived (pay_each taken (windows a)) life, total (vectors taken)).

(* Weighted, part by part, from the accounts of windows and of life. *)
Record living := Living { by_window : list owing; life : N; life_owed : N }.

Fixpoint able_parts (asked : list (N * vector)) (l : list owing) : list (option (N * vector)) :=
  match asked, l with
  | (c, v) :: r, a :: s =>
      (if round_up (owed a + c) <=? left a then Some (c, v) else None) :: able_parts r s
  | _, _ => []
  end.

Fixpoint owe_each (taken : list (option (N * vector))) (l : list owing) : list owing :=
  match taken, l with
  | Some (c, _) :: r, a :: s => Owing (left a) (owed a + c) :: owe_each r s
  | None :: r, a :: s => a :: owe_each r s
  | [], _ => l
  | _, [] => []
  end.

(* Roots are rounded up to a 32nd of a unit's root. *)
Definition in_32nds (taken : list (option (N * vector))) : list (option (N * vector)) :=
  map (option_map (fun t => (fst t * 1024, snd t))) taken.

Definition costs (taken : list (option (N * vector))) : N :=
  fold_right (fun t s => match t with Some (c, _) => c + s | None => s end) 0 taken.

Definition cost_of (is_apart : bool) (taken : list (option (N * vector))) : N :=
  if is_apart then costs taken
  else ceil_div (roots (in_32nds taken) * roots (in_32nds taken)) 1024.

Definition admit_each (is_apart : bool) (asked : list (N * vector)) (a : living)
  : living * vector :=
  let taken := able_parts asked (by_window a) in
  let owed := life_owed a + cost_of is_apart taken in
  if owed <=? life a
  then (Living (owe_each taken (by_window a)) (life a) owed, total (vectors taken))
  else (a, []).

Definition settle_each (a : living) : living :=
  Living (map settle (by_window a)) (life a - life_owed a) 0.

(* A pilot adds up all windows in the same cells. *)
Definition pilot_each (m : measure) (vs : list vector) (a : living) : living * vector :=
  admit_each false (map (fun v => (pilot_due m v, fit (cells m) v)) vs) a.

Definition sums_each (is_apart : bool) (q : list summed) (xs : list (fraction * list vector))
    (a : living) : living * vector :=
  admit_each is_apart
    (map (fun x => (dues (fst x) q (snd x), all_weighed (fst x) q (snd x))) xs) a.

(* --- A whole store --------------------------------------------------------------------------- *)

(* Everybody's account after a step, and what is summed. *)
Definition step {Data A : Type} (one : Data -> A -> A * vector) (l : list (Data * A))
  : list A * vector :=
  let after := map (fun x => one (fst x) (snd x)) l in
  (map fst after, total (map snd after)).
