(* A program of the gate of Gate.v, the very functions that Sound.v, Parts.v and Windows.v are about. *)
From Coq Require Import Extraction ExtrOcamlBasic.
From Sparseq Require Import Gate.

Extraction Language OCaml.
Extraction "gate.ml"
  step in_or_out pilot sums settle wholly from_pot part_off together apart
  pilot_each sums_each settle_each.
