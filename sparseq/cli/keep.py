"""`sparseq backup`, `recover`, `mark` and `upgrade`: keeping a store's file."""

from __future__ import annotations

from pathlib import Path

import click

import sparseq
from sparseq.base.errors import ParameterError, StoreError, StoreInUse
from sparseq.base.texts import shown
from sparseq.cli.options import FilePath, command, open_store, store_argument
from sparseq.cli.text import label_lines, say
from sparseq.lake.doctor import examine, examined_file, swept
from sparseq.server.audit import AuditLog
from sparseq.server.quota_desk import tell_losses
from sparseq.store._duckdb.backup import backup as back_up
from sparseq.store._duckdb.backup import keep_mark
from sparseq.store._duckdb.backup import upgrade as up
from sparseq.store.address import address, lake_folder


@command(short_help="Make a whole copy of a store.")
@store_argument
@click.argument("dest", type=FilePath())
def backup(store: Path, dest: Path) -> None:
    """Write a copy of STORE to DEST, which appears whole or not at all; also while it is served.

    The copy has all answers and charges so far, and none that come later. Never ask both: each
    spends the same budget. From now on STORE.session stays beside STORE, so that an earlier copy
    in its place does not open.

    \b
    Examples:
      sparseq backup shop.sparseq shop-march.sparseq
    """

    try:
        with open_store(store) as opened:
            made = back_up(opened, dest)
    except StoreInUse:
        from sparseq.server.serve import served_backup  # most stores are not served

        by_server = served_backup(store, dest)
        if by_server is None:
            raise
        made = by_server
    has = f"everything up to release {made.releases:,}"
    say(f"{shown(dest)} has {has}, and none of the charges after it")


@command(short_help="Open a store that was not closed, and tidy up.")
@store_argument
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Go on without what is missing. The guarantee then has a hole, and the store "
    "says so for ever.",
)
def recover(store: Path, accept_loss: bool) -> None:
    """Open STORE, which was not closed, with what lies beside it, and close it.

    With --accept-loss, what the missing answers cost is in no account: whoever has seen them may
    learn more about a person than was promised. No other copy of STORE opens with its mark after.

    Every other command does so too. If a part is missing, the error names it, and says how to
    bring it back.

    \b
    Examples:
      sparseq recover shop.sparseq
      sparseq recover shop.sparseq --accept-loss
    """

    with sparseq.connect(store, accept_loss=accept_loss) as opened:
        releases, losses = opened.released, opened.losses
    if accept_loss:
        tell_losses(AuditLog.beside(store), losses)
    if not losses:
        say(f"{shown(address(store))} is whole, up to release {releases:,}")
        return
    say(f"{shown(address(store))} continues from release {releases:,}. A part of it was missing:")
    for loss in losses:
        say(f"  {loss.at}, after release {loss.after:,}: {shown(loss.missing)}")


@command(short_help="Keep a store's high-water mark outside of it.")
@store_argument
@click.argument("file")
def mark(store: Path, file: str) -> None:
    """Have the high-water mark of STORE in FILE, on another disk or machine, from now on.

    FILE says how far STORE has come, before each answer leaves; it may be an object, as
    s3://bucket/shop.mark. STORE and all its backups open with it alone, and only while they have
    every charge that it tells of: a backup that is behind does not open. If STORE has a mark
    already, FILE is where it was moved.

    \b
    Examples:
      sparseq mark shop.sparseq /mnt/other/shop.mark
      sparseq mark shop.sparseq s3://bucket/shop.mark
    """

    reached = keep_mark(store, file)
    say(
        f"{shown(store)} and its backups open with {shown(file)} only; it is at release "
        f"{reached.releases:,}"
    )


@command(short_help="Make a store of an earlier version one of this.")
@store_argument
def upgrade(store: Path) -> None:
    """Make STORE, of an earlier version, one that this version reads; charges and answers stay.

    The file is changed in place, completely or not at all. The earlier version can't read it
    afterwards.

    \b
    Examples:
      sparseq upgrade shop.sparseq
    """

    if lake_folder(store) is None:
        done = up(store)
    else:
        sparseq.connect(store).close()  # a lake of another version does not open
        done = False
    say(f"{shown(address(store))} is of this version {'now' if done else 'already'}")


@command(short_help="Check a store or a lake; remove what nothing refers to.")
@store_argument
@click.option("--deep", is_flag=True, help="Read all rows, and compare them with what was written.")
@click.option(
    "--sweep",
    is_flag=True,
    help="Remove the files that nothing refers to. Other drivers have to open the lake again.",
)
def doctor(store: Path, deep: bool, sweep: bool) -> None:
    """Check a store: that it opens, who can read its files, and which DuckDB reads it.

    Of a lake: its log, buckets, accounts and fence, and what is left over. It ends with code 4
    where something is wrong.

    \b
    Examples:
      sparseq doctor shop.sparseq
      sparseq doctor lake://shop
      sparseq doctor lake://shop --deep --sweep
    """

    folder = lake_folder(store)
    if folder is None and (deep or sweep):
        raise ParameterError("--deep and --sweep are for lakes", "leave them out")
    found = list(examined_file(store) if folder is None else examine(folder, deep))
    say(label_lines([(one.of, f"{'!! ' * one.wrong}{shown(one.said)}") for one in found]))
    for one in found:
        if one.wrong:
            raise StoreError(f"{address(store)} is not in order", one.hint)
    if sweep and folder is not None:
        say(f"{swept(folder):,} files are removed")
