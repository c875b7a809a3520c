"""How a figure is kept: as SVG and as PNG, the same file for the same data."""

from pathlib import Path

from matplotlib.figure import Figure


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """The files made."""
    paths = [folder / f"{name}.svg", folder / f"{name}.png"]
    figure.savefig(paths[0], metadata={"Date": None})
    figure.set_layout_engine("none")  # it is laid out, and that takes longer than to draw it
    figure.savefig(paths[1], dpi=110)
    return paths
