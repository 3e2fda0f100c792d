"""`sparseq train`: a model of a store's rows, paid from the same accounts as answers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparseq.accounting import Budget
from sparseq.base.defaults import DELTA
from sparseq.base.errors import ParameterError
from sparseq.base.extensions import MODELS, offers
from sparseq.base.json_text import json_text
from sparseq.cli.declare import most_of
from sparseq.cli.model_files import CLOSED, log_bytes, log_format, model_bytes, model_format
from sparseq.cli.options import (
    GOES,
    Share,
    command,
    facts_format_option,
    file_option,
    open_store,
    store_argument,
    table_option,
    together,
)
from sparseq.cli.output import Output
from sparseq.cli.progress import progress_bar
from sparseq.cli.text import banner, label_lines, say
from sparseq.pictures.bounded_numbers import number, upper
from sparseq.pictures.guarantee_texts import NOT_PRIVATE
from sparseq.pictures.image import picture_kind, render_file
from sparseq.pictures.tables import Table
from sparseq.training import PrivateGD
from sparseq.training.features import features_of, target_of
from sparseq.training.identity import digest_of
from sparseq.training.model import Model
from sparseq.training.report import report_of
from sparseq.training.store_rows import engine_for
from sparseq.training.training_figures import training_sheet

if TYPE_CHECKING:
    from sparseq.question.catalog import Table as CatalogTable
    from sparseq.store.store import Store
    from sparseq.training import PrivateGD, TrainingResult, TrainingStep
    from sparseq.training.features import Feature, Target
    from sparseq.training.model import Model

training = together(
    click.option(
        "--target",
        required=True,
        metavar="COL[=VALUE]",
        help="What to predict: a column, or whether it is VALUE.",
    ),
    click.option(
        "--features",
        required=True,
        metavar="COL,COL/8,…",
        help="Columns to predict from; COL/8 cuts a number into 8 ranges.",
    ),
    click.option(
        "--model",
        default="logistic",
        show_default=True,
        metavar="|".join([*CLOSED, "mlp", "FILE.py:FUNCTION"]),
        help="Kind of model; FUNCTION(features, outputs) makes a torch module.",
    ),
    table_option,
    click.option("--epsilon", type=float, help="What this run may cost, with --delta."),
    click.option("--delta", type=float, help="See --epsilon."),
    click.option(
        "--steps",
        type=int,
        default=50,
        show_default=True,
        help="How many steps everybody can take part in at full norm.",
    ),
    click.option(
        "--most",
        multiple=True,
        metavar="steps=N",
        help="Go on to N steps with those who have budget left.",
    ),
    click.option("--clip", type=float, default=1.0, show_default=True, help="C, the full norm."),
    click.option("--rate", type=float, default=1.0, show_default=True, help="Learning rate."),
    click.option(
        "--momentum",
        type=float,
        default=0.9,
        show_default=True,
        help="Share of a step that is added to the next.",
    ),
    click.option(
        "--averaging",
        type=float,
        default=0.5,
        show_default=True,
        help="Weight of the past in the mean of the parameters.",
    ),
    click.option(
        "--people",
        type=float,
        metavar="N",
        help="About how many people there are, if that is public; else a query asks.",
    ),
    click.option(
        "--checks",
        type=int,
        default=0,
        metavar="N",
        help="Ask for training accuracy N times; with --loss, for the loss.",
    ),
    click.option(
        "--loss",
        type=float,
        default=0.0,
        metavar="LIMIT",
        help="Checks ask the mean loss, each person's clipped at LIMIT.",
    ),
    click.option(
        "--patience",
        type=int,
        default=0,
        metavar="N",
        help="Stop after N checks in a row without improvement.",
    ),
    click.option(
        "--least-active",
        type=Share(0, 1),
        default=0.0,
        metavar="SHARE",
        help="Stop when fewer than SHARE can still pay; each check asks.",
    ),
    click.option(
        "--stop-active",
        type=Share(0, 1),
        default=0.0,
        metavar="SHARE",
        help="The same by a sparse vector, after every step; needs --most, and a store "
        "with a watch.",
    ),
    click.option(
        "--run", "name", metavar="NAME", help="Name of the run. [default: made from the options]"
    ),
    file_option(
        "--output", "-o", help="Write the model to FILE: .json or .npz; .pt for a network."
    ),
    file_option("--log", help="Write the public facts of every step to FILE, .csv or .parquet."),
    facts_format_option,
)
"""Options of every run."""


@command(short_help="Train a model on the rows, privately.")
@store_argument
@training
@file_option("--report", hidden=True, help="Now: sparseq curator train.")
def train(store: Path, report: Path | None, **options: Any) -> None:
    """Train a model on the rows of STORE.

    Every step is one query: it charges people the squared norms of their gradients, from the same
    budget as answers. A person without budget is left out, and training continues with the others.
    All output is public.

    The same command again gives the same model, free; and a stopped or killed run continues where
    it was. Another --run trains again.

    \b
    Examples:
      sparseq train people.sparseq --target income=">50K" --features age/8,sex,hours
          --epsilon 1 --delta 1e-6 --output income.json
      sparseq train shop.sparseq --model poisson --target visits --features age,region
      sparseq train shop.sparseq --model mlp --target region --features age,visits --output net.pt
    """
    if report is not None:
        say(f"train --report is now curator train --report; {GOES}", err=True)
    run_training(store, report, **options)


@command("train", short_help="Train, with a report of who took part.")
@training
@file_option(
    "--report",
    required=True,
    help="Who was active when, and who spent how much: .html, .png, .svg.",
)
@click.pass_obj
def curator_train(store: Path, /, report: Path, **options: Any) -> None:
    """Train as `sparseq train` does, and write an exact report about the people.

    With the options of a finished run, there is no further charge.

    \b
    Examples:
      sparseq curator train people.sparseq --target income=">50K" --features age/8,sex,hours
          --report income.html
    """
    run_training(store, report, **options)


def run_training(
    store: Path,
    report: Path | None,
    *,
    target: str,
    features: str,
    model: str,
    table: str | None,
    epsilon: float | None,
    delta: float | None,
    name: str | None,
    output: Path | None,
    log: Path | None,
    format: str,
    **settings: Any,
) -> None:
    """Train, show the facts, and write the requested files."""
    settings["most"] = steps_of(settings["most"])
    check_model(model, settings)
    how = PrivateGD(**settings)
    asked = [part for part in features.split(",") if part.strip()]
    kind, log_kind = model_format(output, model), log_format(log)
    picture = picture_kind(report, "--report") if report is not None else "html"
    with (
        open_store(store) as opened,
        Output(output, kind) as model_file,
        Output(log, log_kind) as log_file,
        Output(report, picture, private=True) as report_file,
    ):
        run = name or default_name(
            target, asked, model, table, epsilon, delta, settings, code=code_in(model)
        )
        trained, made = trained_on(opened, table, target, asked, model, how, run, epsilon, delta)
        facts = facts_of(trained, made, how, delta)
        if output is not None:
            model_file.write(model_bytes(made, kind))
        if log is not None:
            log_file.write(log_bytes(trained, log_kind))
        if report is not None:
            table_of = Table(["", ""], [list(row) for row in summary_rows(facts, None)], ["l", "l"])
            exact = report_of(opened, how, made.run, trained)
            sheet = training_sheet(exact, trained, f"Training run {made.run}", table_of)
            report_file.write(render_file(sheet, picture))
            say(banner(f"{report} has exact facts about people. Curator only."), err=True)
    if trained.seeded:
        say(banner(NOT_PRIVATE), err=True)
    say(json_text(facts) if format == "json" else summary(facts, output))


def steps_of(most: tuple[str, ...]) -> int | None:
    """Return the last step, of `--most steps=N`."""
    limits = most_of(most)
    if set(limits) - {"steps"}:
        raise ParameterError(f"--most {most[0]} is not known here", "write --most steps=N")
    return limits.get("steps")


def check_model(model: str, settings: dict[str, Any]) -> None:
    """Check before any query that such a model is possible.

    Raises:
        ParameterError: PyTorch is missing, or the model can't be checked in this way.
    """
    closed = model in CLOSED
    if not closed and model != "mlp" and ".py:" not in model:
        raise click.UsageError(
            f"there is no model {model!r}: {', '.join(CLOSED)}, mlp, or FILE.py:FUNCTION"
        )
    if not closed:
        if "network" not in offers(MODELS):
            raise ParameterError("this installation trains no networks", ", ".join(CLOSED))
        try:
            import torch  # noqa: F401
        except ImportError:
            raise ParameterError(
                f"--model {model} needs PyTorch, which is not installed",
                "pip install 'sparseq[networks]'",
            ) from None
    if settings["checks"] and not settings["loss"] and model in ("linear", "poisson"):
        raise ParameterError(f"a {model} model has no accuracy to check", "check --loss LIMIT")


def trained_on(
    store: Store,
    table: str | None,
    target: str,
    asked: list[str],
    model: str,
    how: PrivateGD,
    run: str,
    epsilon: float | None,
    delta: float | None,
) -> tuple[TrainingResult, Any]:
    """Train, with a progress bar on a terminal's standard error; return the model too."""

    chosen = store.catalog.table(table) if table else store.catalog.only_private()
    if not chosen.private:
        raise ParameterError(f"{chosen.name} is a public table", "train on one about people")
    aim = target_of(chosen, target, model)
    features = features_of(chosen, asked, aim.column)
    engine: Any
    if model in CLOSED:
        engine, start = engine_for(store, chosen, features, aim, model), None
    else:
        networks = offers(MODELS)["network"].load()
        if how.checks and not how.loss and networks.outputs_of(aim) == 1:
            raise ParameterError(f"{target} is a number: it has no accuracy", "check --loss LIMIT")
        engine = networks.network_for(store, chosen, features, aim, model)
        start = engine.start()
    about = f"{model}: {target} from {', '.join(asked)} in {chosen.name}"
    with training_bar(how.last) as tick:
        trained = how.fit(
            store,
            engine,
            run=run,
            about=about,
            depends=depends_on(chosen, features, aim, model),
            epsilon=epsilon,
            delta=delta,
            start=start,
            watch=tick,
        )
    if model in CLOSED:
        return trained, Model.of(model, aim, features, run, trained)
    return trained, networks.NetworkModel.of(model, aim, features, run, trained, engine)


def depends_on(
    table: CatalogTable, features: Sequence[Feature], target: Target, model: str
) -> dict[str, str]:
    """Return the parts of the request that a run depends on: table, encodings, file of code.

    The encodings hold the bounds and keys that the curator declared.
    """

    return {
        "table": table.name,
        "target": repr(target),
        **{f"feature {feature.column}": repr(feature) for feature in features},
        "file of the model": digest_of(code_in(model)) if ".py:" in model else "none",
    }


@contextmanager
def training_bar(steps: int) -> Iterator[Callable[[TrainingStep], None]]:
    """Yield the function to call after each step; it shows public facts only, no exact loss."""

    with progress_bar() as progress:
        task = progress.add_task("training", total=steps)
        seen: dict[str, str] = {}

        def tick(step: TrainingStep) -> None:
            seen.update(show_noisy(step))
            told = ", ".join(f"{name} about {value}" for name, value in seen.items())
            worst = f"budget: {100 * step.worst_case:.0f} % at most"
            shown = f"training ({worst}{', ' if told else ''}{told})"
            progress.update(task, advance=1, description=shown)

        yield tick


def show_noisy(step: TrainingStep) -> dict[str, str]:
    """Return the noised facts about people after a step, as texts."""
    texts = {}
    if step.accuracy is not None:
        texts["accuracy"] = f"{100 * step.accuracy:.1f} %"
    if step.loss is not None:
        texts["loss"] = f"{step.loss:.3g}"
    if step.active is not None:
        texts["active"] = f"{100 * min(max(step.active, 0), 1):.0f} %"
    return texts


def default_name(*asked: Any, code: bytes = b"") -> str:
    """Return a run's name, the same for the same command and the same file of the model."""
    return "run-" + hashlib.sha256(repr(asked).encode() + code).hexdigest()[:10]


def code_in(model: str) -> bytes:
    """Return the content of the file that makes a model, if it can be read."""
    path = Path(model.rpartition(":")[0])
    return path.read_bytes() if ".py:" in model and path.is_file() else b""


def facts_of(
    trained: TrainingResult, model: Any, how: PrivateGD, delta: float | None
) -> dict[str, Any]:
    """Return the public facts of the run as plain data."""

    delta = delta if delta is not None else DELTA
    taken = next((s for s in trained.log if s.step == trained.taken), None)
    accuracy, loss = (taken.accuracy, taken.loss) if taken is not None else (None, None)
    return {
        "run": model.run,
        "model": model.name,
        "steps": len(trained.log),
        "taken": trained.taken,
        "stopped": trained.stopped,
        "kappa": trained.kappa,
        "epsilon": Budget(trained.kappa, 1.0, trained.gaussian).epsilon(delta),
        "delta": delta,
        "sigma": trained.log[0].sigma,
        "clip": how.clip,
        "accuracy": accuracy,
        "accuracy_error": trained.check_error if accuracy is not None else None,
        "loss": loss,
        "loss_error": trained.check_error if loss is not None else None,
        "seeded": trained.seeded,
        "parameters": len(trained.params),
    } | ({"coefficients": _coefficients(model)} if model.name in CLOSED else {})


def _coefficients(model: Model) -> dict[str, Any]:
    names = [*(name for f in model.features for name in f.names), "(intercept)"]
    outputs = model.target.keys or (None,)
    one = {
        str(output): dict(zip(names, row, strict=True))
        for output, row in zip(outputs, model.params.tolist(), strict=True)
    }
    return one["None"] if model.target.keys is None else one


def summary(facts: dict[str, Any], out: Path | None) -> str:
    """Return the facts as text."""
    return label_lines(summary_rows(facts, out))


def summary_rows(facts: dict[str, Any], output: Path | None) -> list[tuple[str, str]]:
    """Return the facts as pairs of a label and a text."""
    cost = f"epsilon {upper(facts['epsilon'])} at delta {facts['delta']:g}, by itself"
    lines = [
        ("run", facts["run"]),
        ("steps", f"{facts['steps']}, {facts['stopped']}"),
        ("cost", f"{number(facts['kappa'])}-zCDP at most ({cost})"),
        (
            "noise",
            f"{number(facts['sigma'])} on each sum of gradients of norm "
            f"{number(facts['clip'])} at most",
        ),
    ]
    if facts["accuracy"] is not None:
        value, error = 100 * facts["accuracy"], 100 * facts["accuracy_error"]
        lines.append(("accuracy", f"{value:.1f} % in training, ± {upper(error, 2)} of noise"))
    if facts["loss"] is not None:
        error = upper(facts["loss_error"], 2)
        lines.append(("loss", f"{number(facts['loss'])} in training, ± {error} of noise"))
    if output is not None:
        lines.append(("model", str(output)))
    return lines
