"""The plan into its page and its picture."""

from pathlib import Path

from bench.page import put_between
from bench.plan.costs import Costs
from bench.plan.picture import picture
from bench.plan.tables import TABLES, lives, rebalance

PAGE, PICTURE = "scaling.md", "scaling.svg"


def said(costs: Costs) -> tuple[dict[str, str], str]:
    """The tables by their places, and the picture."""
    lived = lives(costs)
    tables = {name: tell(costs) for name, tell in TABLES.items()}
    return tables | {"rebalance": rebalance(lived)}, picture(costs, lived)


def filled(page: str, tables: dict[str, str]) -> str:
    for name, text in tables.items():
        page = put_between(page, text, f"plan, {name}")
    return page


def publish(costs: Costs, docs: Path) -> None:
    tables, drawn = said(costs)
    place = docs / PAGE
    place.write_text(filled(place.read_text(encoding="utf-8"), tables), encoding="utf-8")
    (docs / PICTURE).write_text(drawn, encoding="utf-8")
