"""Whole lives of stores and lakes in one process, each from one seed, with all that can fail.

    python -m benchmarks.simulation --minutes 60           fresh seeds; a finding says its seed
    python -m benchmarks.simulation --minutes 10 --workers 16 --findings out/found   on many cores
    python -m benchmarks.simulation --seed N --setting S   that life once more, step by step
    python -m benchmarks.simulation --plant all --minutes 10   does it find what it is to find?
    python -m benchmarks.simulation --covered              kinds of steps by faults that met them

In a quarter of an hour:

    world.py    who goes on next, what fails, the clock, random bytes; a *step* is each operation on
                a file, each statement that writes, each message. At each the process may be killed,
                power be lost, the disk be full or fail, the clock jump, others go first
    disk.py     what is durable of a real folder, and the states that a loss of power may leave
    seams.py    where `os`, `open`, the clocks, random bytes, DuckDB, SQLite and delta-rs meet a
                world; the code under test is as it is, and knows of nothing
    threads.py  threads, locks and event loops of a process, whose order a world says
    delta.py    entries of a lake's log in small steps; some seeds have those of delta-rs
    drivers.py  who lives there: drivers of a lake; a store in a file with backups; a store with a
                mark, and copies that are made at any step, any of which may be asked. Clients
                repeat requests, and answers get lost; files are put back, and rot
    monitors.py files of rows come to a store or a lake, and monitors ask about each day
    servers.py  servers, and clients of HTTP and PostgreSQL's protocol over a network that fails
    populations.py  two stores that draw on one budget
    upgrades.py stores of an earlier format
    checks.py   what must never happen, from what people saw
    faults.py   what was taken out of sparseq on purpose, one thing at a time
    runs.py     one seed after the other, in one process or several

What must never happen: an answer that has left is in no history, or has other bits there; a
request is answered twice with other bits; somebody paid another price than the order of answers
says, is above the budget, or has more left than before; two answers have one noise; a tick or a
file counts twice, or a series has what the history has not; a quota gives more; all threads wait
for each other; a store that lost nothing does not open; an exception that is not ours.

What is not in it: sockets, TLS and signing in (`tests/server`, `tests/pgwire`), what takes too
long, and the inside of DuckDB, SQLite and delta-rs, whose statements and entries are steps that are
done or not.
"""
