"""Whole lives of stores and lakes in one process, each from one seed, with all that can fail.

    python -m checks.simulation --minutes 60           fresh seeds; a finding says its seed
    python -m checks.simulation --minutes 10 --workers 16 --findings out/found   on many cores
    python -m checks.simulation --seed N --setting S   that life once more, step by step
    python -m checks.simulation --plant all --minutes 10   does it find the planted faults?
    python -m checks.simulation --covered              kinds of steps by faults that met them

In a quarter of an hour:

    world.py    the order of tasks, failures, the clock, random bytes; a *step* is each operation on
                a file, each statement that writes, each message. At each the process may be killed,
                power be lost, the disk be full or fail, the clock jump, others go first
    disk.py     the durable state of a real folder, and the states after a loss of power
    seams.py    the connection of `os`, `open`, the clocks, random bytes, DuckDB, SQLite and
                delta-rs to a world; the code under test is unchanged
    threads.py  threads, locks and event loops of a process, in the order of a world
    delta.py    entries of a lake's log in small steps; some seeds have those of delta-rs
    drivers.py  the inhabitants: drivers of a lake; a store in a file with backups; a store with a
                mark, and copies that are made at any step, any of which may be asked. Clients
                repeat requests, and answers get lost; files are put back, and rot
    monitors.py files of rows come to a store or a lake, and monitors ask about each day
    servers.py  servers, and clients of HTTP and PostgreSQL's protocol over a network that fails
    populations.py  two stores that draw on one budget
    upgrades.py stores of an earlier format
    checks.py   what must never happen, from released answers
    faults/     faults that are planted in sparseq, one at a time
    runs.py     one seed after another, in one process or several

What must never happen: a released answer is in no history, or has other bits there; a request is
answered twice with other bits; a user paid another price than the order of answers implies, exceeds
the budget, or has more left than before; two answers have one noise; a tick or a file counts twice,
or a series has rows that are not in the history; a quota gives more; all threads wait for each
other; a store that lost nothing does not open; an unexpected exception.

What is not in it: sockets, TLS and signing in (`tests/server`, `tests/pgwire`), slow operations,
and the inside of DuckDB, SQLite and delta-rs, whose statements and entries are steps that are done
or not.
"""
