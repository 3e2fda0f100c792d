(* A program of the gate of Gate.v, the very functions that Sound.v and Parts.v are about. *)
From Coq Require Import List NArith ZArith Extraction ExtrOcamlBasic.
From Sparseq Require Import Vectors Gate.

(* Everybody's account after a step, and what is summed. *)
Definition step {Data A : Type} (one : Data -> A -> A * vector) (l : list (Data * A))
  : list A * vector :=
  let after := map (fun x => one (fst x) (snd x)) l in
  (map fst after, total (map snd after)).

Extraction Language OCaml.
Extraction "gate.ml"
  step in_or_out pilot sums settle wholly from_pot part_off together apart
  pilot_each sums_each settle_each.
