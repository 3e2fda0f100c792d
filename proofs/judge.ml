(* Reads streams of steps, and says what the extracted gate makes of them. Whole numbers in binary.

   plain, owing, windows, living, pots  a stream begins, with nobody: which kind of accounts
   join ACCOUNT                         somebody comes: LEFT; LEFT; CAP N LEFT ..., twice;
                                        N (ONE LEFT) ...
   in HALT N MEASURE ... VECTOR ...     a question, in or out: N vectors a person
   pilot MEASURE VECTOR ...             a part of a weighted question
   sums N SUMMED ... (WEIGHT VECTOR ...) ...    another; of living: each window's, after APART
   end                                  of a weighted question
   from J ONE HALT N MEASURE ... VECTOR ...   a question that is paid from part J
   part SHARE ONE MOST                  a part of everybody's budget, from here on
   each APART N MEASURE ... VECTOR ...        about windows: N vectors each

   After each step but a join, one line: everybody's account | the sum. *)

open Gate

let word () = Scanf.scanf " %s" (fun s -> s)

let positive s from =
  let rec go p i =
    if i = String.length s then p else go (if s.[i] = '1' then XI p else XO p) (i + 1)
  in
  if s.[from] <> '1' then failwith ("no positive number: " ^ s);
  go XH (from + 1)

let n () = match word () with "0" -> N0 | s -> Npos (positive s 0)
let p () = positive (word ()) 0

let z () =
  match word () with
  | "0" -> Z0
  | s -> if s.[0] = '-' then Zneg (positive s 1) else Zpos (positive s 0)

let small () = int_of_string ("0b" ^ word ())
let yes () = word () = "1"
let rec nat k = if k = 0 then O else S (nat (k - 1))

let rec times k f =
  if k = 0 then []
  else
    let x = f () in
    x :: times (k - 1) f

let many f = let k = small () in times k f
let vector () = many z

let fraction () =
  let over = n () in
  let under = p () in
  { over; under }

let measure () =
  let cells = nat (small ()) in
  let exact = fraction () in
  { cells; exact }

let summed () =
  let sum_of = measure () in
  let finer = fraction () in
  let a = p () in
  let b = p () in
  { sum_of; finer; fixed = (a, b) }

let owing () = { left = n (); owed = N0 }

let lived () =
  let for_life = n () in
  { windows = many n; for_life }

let living () =
  let life = n () in
  { by_window = many owing; life; life_owed = N0 }

let pot () =
  let worth_of_one = fraction () in
  { worth_of_one; account = owing () }

(* What each person says, in the order of the accounts. *)
let said read l =
  List.rev (List.fold_left (fun found a -> let d = read a in (d, a) :: found) [] l)

let rec bits = function XH -> "1" | XO p -> bits p ^ "0" | XI p -> bits p ^ "1"
let of_n = function N0 -> "0" | Npos p -> bits p
let of_z = function Z0 -> "0" | Zpos p -> bits p | Zneg p -> "-" ^ bits p
let commas = String.concat ","

let answer show (accounts, total) =
  print_string (String.concat " " (List.map show accounts));
  print_string " | ";
  print_endline (String.concat " " (List.map of_z total));
  accounts

type stream =
  | Plain of n list
  | Owing of owing list
  | Windows of lived list
  | Living of living list
  | Pots of pot list list

let next now = function
  | "plain" -> Plain []
  | "owing" -> Owing []
  | "windows" -> Windows []
  | "living" -> Living []
  | "pots" -> Pots []
  | "join" -> (
      match now with
      | Plain l -> Plain (l @ [ n () ])
      | Owing l -> Owing (l @ [ owing () ])
      | Windows l -> Windows (l @ [ lived () ])
      | Living l -> Living (l @ [ living () ])
      | Pots l -> Pots (l @ [ many pot ]))
  | asked -> (
      match (asked, now) with
      | "in", Plain l ->
          let halt = yes () in
          let q = many measure in
          let read _ = times (List.length q) vector in
          Plain (answer of_n (step (in_or_out halt q) (said read l)))
      | (("in" | "pilot" | "sums" | "end") as part), Owing l ->
          let show a = of_n a.left ^ "," ^ of_n a.owed in
          Owing
            (answer show
               (match part with
               | "in" ->
                   let halt = yes () in
                   let q = many measure in
                   let read _ = times (List.length q) vector in
                   step (wholly halt q) (said read l)
               | "pilot" ->
                   let m = measure () in
                   step (pilot m) (said (fun _ -> vector ()) l)
               | "sums" ->
                   let q = many summed in
                   let read _ =
                     let w = fraction () in
                     (w, times (List.length q) vector)
                   in
                   step (fun (w, x) a -> sums w q x a) (said read l)
               | _ -> step (fun () a -> (settle a, [])) (said (fun _ -> ()) l)))
      | (("pilot" | "sums" | "end") as part), Living l ->
          let show a =
            commas
              (of_n a.life :: of_n a.life_owed
              :: List.concat_map (fun w -> [ of_n w.left; of_n w.owed ]) a.by_window)
          in
          Living
            (answer show
               (match part with
               | "pilot" ->
                   let m = measure () in
                   let read a = List.map (fun _ -> vector ()) a.by_window in
                   step (pilot_each m) (said read l)
               | "sums" ->
                   let is_apart = yes () in
                   let q = many summed in
                   let of_window _ =
                     let w = fraction () in
                     (w, times (List.length q) vector)
                   in
                   let read a = List.map of_window a.by_window in
                   step (sums_each is_apart q) (said read l)
               | _ -> step (fun () a -> (settle_each a, [])) (said (fun _ -> ()) l)))
      | (("from" | "part") as part), Pots l ->
          let show pots = commas (List.map (fun x -> of_n x.account.left) pots) in
          Pots
            (answer show
               (match part with
               | "from" ->
                   let j = nat (small ()) in
                   let one = fraction () in
                   let halt = yes () in
                   let q = many measure in
                   let read _ = times (List.length q) vector in
                   step (fun x a -> from_pot j one (wholly halt q x) a) (said read l)
               | _ ->
                   let share = fraction () in
                   let one = fraction () in
                   let most = n () in
                   step (fun () a -> (part_off share one most a, [])) (said (fun _ -> ()) l)))
      | "each", Windows l ->
          let show a = commas (List.map of_n (a.for_life :: a.windows)) in
          let is_apart = yes () in
          let q = many measure in
          let read a = List.map (fun _ -> times (List.length q) vector) a.windows in
          let one x a = if is_apart then apart q x a else together q x a in
          Windows (answer show (step one (said read l)))
      | _ -> failwith ("no such step here: " ^ asked))

let rec follow now = match word () with "" -> () | asked -> follow (next now asked)
let () = follow (Plain [])
