"""`sparseq backup`, `recover`, `mark` and `upgrade`: keeping a store's file."""

from __future__ import annotations

from pathlib import Path

import click

import sparseq
from sparseq.base.errors import ParameterError, StoreError, StoreInUse
from sparseq.base.extensions import SERVED, offers
from sparseq.base.texts import shown
from sparseq.cli.options import FilePath, command, open_store, store_argument
from sparseq.cli.text import label_lines, say, tell_curator
from sparseq.store._duckdb.backup import backup as back_up
from sparseq.store._duckdb.doctor import examined_file
from sparseq.store._duckdb.outside_mark import keep_mark
from sparseq.store._duckdb.upgrade import upgraded
from sparseq.store.address import address, kind_at


@command(short_help="Make a whole copy of a store.")
@store_argument
@click.argument("dest", type=FilePath())
def backup(store: Path, dest: Path) -> None:
    """Write a copy of STORE to DEST, which appears whole or not at all; STORE may be served.

    The copy has all answers and charges so far, and no later ones. Never query both: each spends
    the same budget. From now on STORE.session stays next to STORE, so that an earlier copy in its
    place does not open.

    \b
    Examples:
      sparseq backup shop.sparseq shop-march.sparseq
    """

    try:
        with open_store(store) as opened:
            made = back_up(opened, dest)
    except StoreInUse:
        by_server = offers(SERVED)["backup"].load()(store, dest) if offers(SERVED) else None
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
    """Open STORE, which was not closed, with the files next to it, and close it.

    With --accept-loss, the charges of the missing answers are in no account: people who have seen
    those answers may learn more about a person than was promised. Afterwards no other copy of STORE
    opens with its mark.

    Every other command does so too. If a part is missing, the error names it and the way to restore
    it.

    \b
    Examples:
      sparseq recover shop.sparseq
      sparseq recover shop.sparseq --accept-loss
    """

    with sparseq.connect(store, accept_loss=accept_loss) as opened:
        releases, losses = opened.released, opened.losses
    if accept_loss and "tell_losses" in offers(SERVED):
        offers(SERVED)["tell_losses"].load()(store, losses)
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
    """Keep the high-water mark of STORE in FILE, on another disk or machine, from now on.

    FILE records the progress of STORE before each answer leaves; it may be an object, as
    s3://bucket/shop.mark. STORE and all its backups open only with it, and only if they have every
    charge that it records: a backup that is behind does not open. If STORE has a mark already, FILE
    is the new place of that mark.

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
    """Upgrade STORE from an earlier version to this version; charges and answers stay.

    Earlier versions applied --bounds and --keys to every column of that name. The command prints
    the effect on STORE and the changes made now.

    The file is changed in place, completely or not at all. The earlier version can't read it
    afterwards.

    \b
    Examples:
      sparseq upgrade shop.sparseq
    """

    if kind_at(store) is None:
        found = upgraded(store)
        done = found.changed
        tell_curator(found.messages)
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
    """Check a store: that it opens, the permissions of its files, and the version of DuckDB.

    In a lake: its log, buckets, accounts and fence, and files left over. The exit code is 4 if
    there is a fault.

    \b
    Examples:
      sparseq doctor shop.sparseq
      sparseq doctor lake://shop
      sparseq doctor lake://shop --deep --sweep
    """

    kind, folder = kind_at(store) or (None, store)
    if kind is None and (deep or sweep):
        raise ParameterError("--deep and --sweep are for lakes", "leave them out")
    found = list(examined_file(store) if kind is None else kind.examine(folder, deep))
    say(label_lines([(one.of, f"{'!! ' * one.wrong}{shown(one.said)}") for one in found]))
    for one in found:
        if one.wrong:
            raise StoreError(f"{address(store)} is not in order", one.hint)
    if sweep and kind is not None:
        say(f"{kind.sweep(folder):,} files are removed")
