(* Reads streams of steps, says what the extracted gate makes of them: whole numbers in binary.

   people KIND ACCOUNTS      accounts: plain B …, owing B …, windows CAP N B … …, pots NUM DEN B …
   in HALT MEASURES VECTORS  a question, in or out
   pilot MEASURE VECTORS     a part of a weighted question
   sums MEASURES WEIGHTS     another
   end                       of it
   part SHARE ONE MOST       a part of everybody's budget
   from J ONE HALT …         a question that is paid from part J
   windows APART …           a question about windows
   After each a line: everybody's account, what everybody adds, the sum. *)

open Gate

let tokens =
  let buffer = Scanf.Scanning.from_channel stdin in
  fun () -> Scanf.bscanf buffer " %s" (fun s -> s)

let positive s from =
  let n = String.length s in
  let rec go p i = if i = n then p else go (if s.[i] = '1' then XI p else XO p) (i + 1) in
  if s.[from] <> '1' then failwith ("no positive number: " ^ s);
  go XH (from + 1)

let n () = let s = tokens () in if s = "0" then N0 else Npos (positive s 0)
let p () = positive (tokens ()) 0

let z () =
  let s = tokens () in
  if s = "0" then Z0 else if s.[0] = '-' then Zneg (positive s 1) else Zpos (positive s 0)

let small () = int_of_string (tokens ())
let rec nat k = if k = 0 then O else S (nat (k - 1))
let rec times k f = if k = 0 then [] else let x = f () in x :: times (k - 1) f

let rec bits = function XH -> "1" | XO p -> bits p ^ "0" | XI p -> bits p ^ "1"
let of_n = function N0 -> "0" | Npos p -> bits p
let of_z = function Z0 -> "0" | Zpos p -> bits p | Zneg p -> "-" ^ bits p
let words = String.concat " "

let fraction () = let a = n () in let b = p () in { over = a; under = b }
let vector () = let k = small () in times k z

let measure () =
  let k = small () in
  let r = fraction () in
  { cells = nat k; exact = r }

let summed () =
  let m = measure () in
  let f = fraction () in
  let a = p () in
  let b = p () in
  { sum_of = m; finer = f; fixed = (a, b) }

type accounts =
  | Plain of n list
  | Owings of owing list
  | Lived of lived list
  | Pots of pot list list

let shown = function
  | Plain l -> words (List.map of_n l)
  | Owings l -> words (List.map (fun a -> of_n a.left ^ "," ^ of_n a.owed) l)
  | Lived l ->
      words
        (List.map
           (fun a -> String.concat "," (of_n a.for_life :: List.map of_n a.windows))
           l)
  | Pots l ->
      words
        (List.map
           (fun pots -> String.concat "," (List.map (fun x -> of_n x.account.left) pots))
           l)

let answer back ((accounts, added), total) =
  let vectors = List.map (fun v -> String.concat "," (List.map of_z v)) added in
  let now = back accounts in
  print_endline
    (shown now ^ " | " ^ words (List.map (fun v -> "[" ^ v ^ "]") vectors)
   ^ " | " ^ words (List.map of_z total));
  now

let people () =
  let kind = tokens () in
  let k = small () in
  match kind with
  | "plain" -> Plain (times k n)
  | "owing" -> Owings (times k (fun () -> { left = n (); owed = N0 }))
  | "windows" ->
      let cap = n () in
      Lived (times k (fun () -> { windows = (let w = small () in times w n); for_life = cap }))
  | "pots" ->
      let one = fraction () in
      Pots
        (times k (fun () ->
             [ { worth_of_one = one; account = { left = n (); owed = N0 } } ]))
  | _ -> failwith kind

(* Each person's data: one vector a measure. *)
let data accounts m = List.map (fun a -> (times m vector, a)) accounts

let rec follow now =
  match try tokens () with End_of_file -> "" with
  | "" -> ()
  | "people" -> follow (people ())
  | word -> follow (one word now)

and one word now =
  match (word, now) with
  | "in", Plain l ->
      let halt = tokens () = "1" in
      let m = small () in
      let q = times m measure in
      answer (fun l -> Plain l) (step (fun x a -> in_or_out halt q x a) (data l m))
  | "pilot", Owings l ->
      let m = measure () in
      answer (fun l -> Owings l)
        (step (fun x a -> pilot m (List.hd x) a) (data l 1))
  | "sums", Owings l ->
      let m = small () in
      let q = times m summed in
      let read a = let w = fraction () in ((w, times m vector), a) in
      answer (fun l -> Owings l) (step (fun (w, x) a -> sums w q x a) (List.map read l))
  | "end", Owings l ->
      answer (fun l -> Owings l) (step (fun () a -> (settle a, [])) (List.map (fun a -> ((), a)) l))
  | "part", Pots l ->
      let share = fraction () in
      let unit = fraction () in
      let most = n () in
      answer (fun l -> Pots l)
        (step (fun () a -> (part_off share unit most a, [])) (List.map (fun a -> ((), a)) l))
  | "from", Pots l ->
      let j = small () in
      let unit = fraction () in
      let halt = tokens () = "1" in
      let m = small () in
      let q = times m measure in
      answer (fun l -> Pots l)
        (step (fun x a -> from_pot (nat j) unit (wholly halt q x) a) (data l m))
  | "windows", Lived l ->
      let is_apart = tokens () = "1" in
      let m = small () in
      let q = times m measure in
      let read a = (List.map (fun _ -> times m vector) a.windows, a) in
      answer (fun l -> Lived l)
        (step (fun x a -> if is_apart then apart q x a else together q x a) (List.map read l))
  | _ -> failwith ("no such step here: " ^ word)

let () = follow (Plain [])
