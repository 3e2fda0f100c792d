"""`sparseq backup`, `recover` and `upgrade`: keeping a store's file."""

from __future__ import annotations

from pathlib import Path

import click

import sparseq
from sparseq._duckdb.backup import backup as back_up
from sparseq._duckdb.upgrade import upgrade as up
from sparseq.address import address, lake_folder
from sparseq.cli.options import command, open_store, store_argument
from sparseq.cli.text import labelled, say
from sparseq.cluster.doctor import examined, swept
from sparseq.errors import ParameterError, StoreError
from sparseq.escape import shown


@command(short_help="Make a whole copy of a store.")
@store_argument
@click.argument("dest", type=click.Path(path_type=Path))
def backup(store: Path, dest: Path) -> None:
    """Write a copy of STORE to DEST, which appears whole or not at all.

    The copy has all answers and charges so far, and none that come later. Never ask both: each
    spends the same budget. From now on STORE.session stays beside STORE, so that an earlier copy
    in its place does not open.

    \b
    Examples:
      sparseq backup shop.sparseq shop-march.sparseq
    """

    with open_store(store) as opened:
        made = back_up(opened, dest)
    has = f"everything up to release {made.releases:,}"
    say(f"{shown(dest)} has {has}, and none of the charges after it")


@command(short_help="Open a store that was not closed, and tidy up.")
@store_argument
@click.option("--accept-loss", is_flag=True,
              help="Go on without what is missing. The guarantee then has a hole, and the store "
              "says so for ever.")  # fmt: skip
def recover(store: Path, accept_loss: bool) -> None:
    """Open STORE, which was not closed, with what lies beside it, and close it.

    Every other command does so too. If a part is missing, the error names it, and says how to
    bring it back.

    \b
    Examples:
      sparseq recover shop.sparseq
      sparseq recover shop.sparseq --accept-loss
    """

    with sparseq.connect(store, accept_loss=accept_loss) as opened:
        releases, losses = opened.releases, opened.losses
    if not losses:
        say(f"{shown(address(store))} is whole, up to release {releases:,}")
        return
    say(f"{shown(address(store))} continues from release {releases:,}. A part of it was missing:")
    for loss in losses:
        say(f"  {loss.at}, after release {loss.after:,}: {shown(loss.missing)}")


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


@command(short_help="Check a lake; remove what nothing refers to.")
@store_argument
@click.option("--deep", is_flag=True, help="Read all rows, and compare them with what was written.")
@click.option("--sweep", is_flag=True,
              help="Remove the files that nothing refers to. Other drivers have to open the lake "
              "again.")  # fmt: skip
def doctor(store: Path, deep: bool, sweep: bool) -> None:
    """Check a lake: its log, buckets, accounts and fence, and what is left over.

    It ends with code 4 where something is wrong. A store in a file is checked when it is opened.

    \b
    Examples:
      sparseq doctor lake://shop
      sparseq doctor lake://shop --deep --sweep
    """

    folder = lake_folder(store)
    if folder is None:
        raise ParameterError("the doctor is for lakes", "a file is checked when it is opened")
    found = list(examined(folder, deep))
    say(labelled([(one.of, f"{'!! ' * one.wrong}{shown(one.said)}") for one in found]))
    for one in found:
        if one.wrong:
            raise StoreError(f"{address(store)} is not in order", one.hint)
    if sweep:
        say(f"{swept(folder):,} files are removed")
