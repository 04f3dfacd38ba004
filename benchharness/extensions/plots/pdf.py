"""Export of figures as PDF for papers, with matplotlib (extra `paper`)."""

import io
import re

from matplotlib import rc_context
from matplotlib.figure import Figure as Canvas

from benchharness.extensions.plots import chart

_UNITS = 100  # chart units per inch

_ALIGN = {"start": "left", "middle": "center", "end": "right"}


def to_pdf(figure: chart.Figure) -> bytes:
    """Draw a chart of points and lines; return the contents of a PDF file.

    Equal charts give equal bytes if the version of matplotlib is the same.
    """
    with rc_context({"pdf.fonttype": 42, "font.size": 9, "lines.linewidth": 0.8}):
        canvas = Canvas(figsize=(figure.width / _UNITS, figure.height / _UNITS))
        axes = canvas.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, figure.width), ylim=(figure.height, 0))
        axes.set_axis_off()
        x, y, bottom = figure.x, figure.y, figure.bottom
        for place, text in y.ticks:
            axes.plot((x.start, x.end), (place, place), color="0.85")
            axes.text(x.start - 6, place, text, ha="right", va="center")
        for place, text in x.ticks:
            axes.plot((place, place), (bottom, bottom + 4), color="black")
            axes.text(place, bottom + 18, text, ha="center")
        axes.text((x.start + x.end) / 2, bottom + 36, x.label, ha="center")
        axes.text(4, (y.start + y.end) / 2, y.label, rotation=90, va="center")
        ranges = (mark.paths.get("range", "") for mark in figure.marks)
        for d in (*(path.d for path in figure.paths), *ranges):
            # A path is e.g. "M1,2 3,4".
            corners = [pair.split(",") for pair in re.findall(r"-?[\d.]+,-?[\d.]+", d)]
            axes.plot([float(x) for x, _ in corners], [float(y) for _, y in corners], color="0.5")
        for mark in figure.marks:
            face = "black" if "on-front" in mark.kind else "white"
            kind = "x" if "crosses" in mark.paths else "o"
            axes.plot(mark.x, mark.y, kind, color="black", markerfacecolor=face, markersize=5)
            for name in mark.texts:
                axes.text(name.x, name.y, name.text, ha=_ALIGN[name.anchor])
        file = io.BytesIO()
        canvas.savefig(file, format="pdf", metadata={"CreationDate": None})
    return file.getvalue()
