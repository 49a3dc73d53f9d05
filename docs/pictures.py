"""Draws the pictures of the concepts page: `python docs/pictures.py` writes `docs/images/concepts/*.svg`."""

from pathlib import Path

import numpy as np

import cursus

FOLDER = Path(__file__).parent / "images" / "concepts"
STYLE = """
.pic{--ink:#1f2328;--soft:#6b7280;--line:#c4cad2;--card:#f3f5f8;--on:#fff;--one:#0b65c2;--two:#1a7f4b;--three:#c2410c;--four:#7c4dbc;
  font:13px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif}
@media(prefers-color-scheme:dark){.pic{--ink:#e6e8eb;--soft:#9aa4b2;--line:#4a5361;--card:#232a33;--on:#10151c;--one:#6cb6ff;--two:#57c98a;
  --three:#ff9b6b;--four:#b794f6}}
.pic text{fill:var(--ink)} .pic .soft{fill:var(--soft)} .pic .bold{font-weight:600} .pic .small{font-size:11.5px}
.pic .mid{text-anchor:middle} .pic .end{text-anchor:end} .pic .on{fill:var(--on);font-weight:600}
.pic .card{fill:var(--card);stroke:var(--line)} .pic .line{fill:none;stroke:var(--line)} .pic .ink{fill:none;stroke:var(--ink)}
.pic .dash{stroke-dasharray:5 4} .pic .thick{stroke-width:2.2}
.pic .one{fill:var(--one)} .pic .two{fill:var(--two)} .pic .three{fill:var(--three)} .pic .four{fill:var(--four)}
.pic .s1{stroke:var(--one)} .pic .s2{stroke:var(--two)} .pic .s3{stroke:var(--three)} .pic .s4{stroke:var(--four)}
.pic .curve{fill:none;stroke-width:2.2;stroke-linejoin:round} .pic .band{opacity:.18} .pic .open{opacity:.45}
"""
"""Colours by name, for light and for dark; the site sets those of its own theme over them."""


class Picture:
    """Marks on a canvas of so many points, from its upper left corner."""

    def __init__(self, name: str, title: str, height: int, width: int = 760) -> None:
        self.name, self.title, self.width, self.height = name, title, width, height
        self.marks: list[str] = []

    def text(self, x: float, y: float, text: str, style: str = "") -> None:
        """A line of text that begins at a point, or has its middle or end there."""
        self.marks.append(f'<text x="{x:g}" y="{y:g}" class="{style}">{text}</text>')

    def box(self, x: float, y: float, width: float, height: float, style: str = "card", round_: float = 6) -> None:
        """A rectangle."""
        self.marks.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{round_:g}" class="{style}"/>')

    def line(self, points: list[tuple[float, float]], style: str = "line", end: bool = False) -> None:
        """A line through points, perhaps with an arrow at its end."""
        path = "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.marks.append(f'<path d="{path}" class="{style}"' + (f' marker-end="url(#arrow-{self.name})"/>' if end else "/>"))

    def area(self, points: list[tuple[float, float]], style: str) -> None:
        """What lies inside a line."""
        self.marks.append('<path d="M' + " L".join(f"{x:.1f} {y:.1f}" for x, y in points) + f'Z" class="{style}"/>')

    def dot(self, x: float, y: float, style: str, radius: float = 5) -> None:
        """A full circle."""
        self.marks.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" class="{style}"/>')

    def save(self) -> None:
        """Write the picture."""
        arrow = (
            f'<defs><marker id="arrow-{self.name}" viewBox="0 0 8 8" refX="7" refY="4" '
            'markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0 L8 4 L0 8Z" class="soft" style="fill:var(--soft)"/></marker></defs>'
        )
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / f"{self.name}.svg").write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" class="pic" role="img" viewBox="0 0 {self.width} {self.height}">'
            f"<title>{self.title}</title><style>{STYLE}</style>{arrow}\n" + "\n".join(self.marks) + "\n</svg>\n",
            encoding="utf-8",
        )


class Axes:
    """A plot in a part of a picture: x from 0 to `most`, y from 0 to 1."""

    def __init__(self, picture: Picture, x: float, y: float, width: float, height: float, most: float) -> None:
        self.picture, self.x, self.y, self.width, self.height, self.most = picture, x, y, width, height, most
        for share in (0.0, 0.5, 1.0):
            picture.line([self.at(0, share), self.at(most, share)])
            picture.text(x - 8, self.at(0, share)[1] + 4, f"{100 * share:.0f} %", "soft small end")

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where a value lies in the picture."""
        return self.x + self.width * x / self.most, self.y + self.height * (1 - y)

    def curve(self, xs: np.ndarray, ys: np.ndarray, style: str) -> None:
        """A line through values."""
        self.picture.line([self.at(x, y) for x, y in zip(xs, ys, strict=True)], f"curve {style}")

    def ticks(self, every: float, label: str) -> None:
        """Numbers along the lower edge."""
        for x in np.arange(0, self.most + 1, every):
            self.picture.text(self.at(x, 0)[0], self.y + self.height + 18, f"{x:,.0f}", "soft small mid")
        self.picture.text(self.x + self.width / 2, self.y + self.height + 36, label, "soft small mid")


def tickets() -> None:
    """The teacher, and what environments hold."""
    picture = Picture("tickets", "The teacher assigns tasks as tickets, and every ticket is settled once", 318)
    for x, name, about in (
        (20, "Curriculum", "picks tasks, learns from results"),
        (516, "Run folder", "every event, with its evidence"),
    ):
        picture.box(x, 24, 224, 62)
        picture.text(x + 112, 50, name, "bold mid")
        picture.text(x + 112, 70, about, "soft small mid")
    picture.box(284, 14, 192, 82, "card s1 thick")
    picture.text(380, 50, "Teacher", "bold mid")
    picture.text(380, 70, "the one authority", "soft small mid")
    picture.line([(244, 46), (282, 46)], end=True)
    picture.line([(284, 66), (246, 66)], end=True)
    picture.line([(476, 55), (514, 55)], end=True)
    held = [
        ("17", "simple", "two", "finished: success"),
        ("18", "simple", "three", "finished: failure"),
        ("19", "hard", "four", "lost: its worker died"),
    ]
    held.append(("20", "simple", "one", "in flight"))
    for place, (ticket, task, colour, state) in enumerate(held):
        x = 20 + place * 184
        picture.line([(330 + place * 33, 98), (x + 74, 148)], end=True)
        picture.box(x, 152, 168, 88)
        picture.text(x + 84, 174, f"environment {place}", "bold mid")
        picture.box(x + 14, 184, 140, 24, colour, 12)
        picture.text(x + 84, 200, f"ticket {ticket} · {task}", "on small mid")
        picture.text(x + 84, 229, state, "soft small mid")
    picture.text(380, 278, "20 assigned  =  18 finished  +  1 lost  +  0 withdrawn  +  1 in flight", "bold mid")
    picture.text(380, 300, "at every moment, whatever was killed or sent twice", "soft small mid")
    picture.save()


EPISODES = [
    (0, 0, 62, False),
    (1, 0, 12, True),
    (2, 0, 74, False),
    (3, 0, 10, True),
    (3, 11, 14, True),
    (1, 13, 70, False),
    (3, 26, 13, True),
    (3, 40, 12, True),
]
"""Episodes in the order in which they begin: environment, first step, length, and whether they succeed."""


def start_order() -> None:
    """Fast wins and slow losses, read as they end and as they began."""
    picture = Picture("start-order", "Gates read results in the order in which the episodes began", 330)
    now, scale, left = 54, 6.6, 130
    for env in range(4):
        picture.text(left - 16, 53 + 36 * env, f"environment {env}", "soft small end")
    for ticket, (env, first, length, won) in enumerate(EPISODES, start=1):
        shown = min(first + length, 92) - first
        ended = first + length <= now
        style = ("two" if won else "three") + ("" if ended else " open")
        picture.box(left + first * scale, 36 + 36 * env, shown * scale - 3, 24, style, 4)
        picture.text(left + (first + shown / 2) * scale - 2, 52 + 36 * env, str(ticket), "on small mid")
    picture.line([(left + now * scale, 16), (left + now * scale, 182)], "ink dash")
    picture.text(left + now * scale + 6, 22, "now", "bold small")
    ended = sorted(
        (first + length, ticket, won) for ticket, (_, first, length, won) in enumerate(EPISODES, 1) if first + length <= now
    )
    picture.text(20, 226, "As they end:", "bold")
    for place, (_, ticket, _) in enumerate(ended):
        _chip(picture, 150 + place * 34, 208, ticket, "two")
    picture.text(150 + 34 * len(ended) + 12, 226, "5 of 5 are wins", "soft")
    picture.text(20, 272, "As they began:", "bold")
    for ticket, (_, first, length, won) in enumerate(EPISODES, start=1):
        style = ("two" if won else "three") if first + length <= now else "line dash"
        _chip(picture, 150 + (ticket - 1) * 34, 254, ticket, style)
    picture.text(150 + 34 * len(EPISODES) + 12, 272, "the gate waits for ticket 1", "soft")
    _chip(picture, 150, 294, "", "two", 16)
    picture.text(174, 307, "success", "soft small")
    _chip(picture, 236, 294, "", "three", 16)
    picture.text(260, 307, "failure", "soft small")
    _chip(picture, 316, 294, "", "line dash", 16)
    picture.text(340, 307, "still open; after a stated lag it counts as a failure", "soft small")
    picture.save()


def _chip(picture: Picture, x: float, y: float, number: object, style: str, size: float = 26) -> None:
    picture.box(x, y, size, size, style, 4)
    picture.text(x + size / 2, y + 17.5, str(number), "small mid" + ("" if "line" in style else " on"))


def gates() -> None:
    """What a gate sees of a student that improves: the rate, its interval, the threshold."""
    picture = Picture("gates", "A gate promotes when the lower bound of the success rate reaches the threshold", 340)
    rng, threshold, window = np.random.default_rng(12), 0.7, 100
    won = rng.random(220) < np.interp(np.arange(220), [0, 40, 90, 220], [0.5, 0.55, 0.9, 0.95])
    evidence = cursus.Wilson(threshold=threshold, window=window).open(lowest=True)
    verdicts = [evidence.add(bool(each)).name for each in won]
    last = verdicts.index("PROMOTE") + 1
    recent = [won[max(0, end - window) : end] for end in range(1, last + 1)]
    rates = np.array([each.mean() for each in recent])
    bounds = np.array([cursus.statistics.wilson(each.sum(), len(each), cursus.statistics.z_of(0.98)) for each in recent])
    most = 25 * (last // 25 + 1)
    axes = Axes(picture, 66, 24, 660, 240, most)
    axes.ticks(25, "episodes of this visit of the stage")
    xs = np.arange(1, last + 1)
    upper, lower = (
        [axes.at(x, y) for x, y in zip(xs, bounds[:, 1], strict=True)],
        [axes.at(x, y) for x, y in zip(xs, bounds[:, 0], strict=True)],
    )
    picture.area(upper + lower[::-1], "one band")
    axes.curve(xs, rates, "s1")
    axes.curve(xs, bounds[:, 0], "s1 dash")
    picture.line([axes.at(0, threshold), axes.at(most, threshold)], "ink dash")
    picture.text(axes.at(52, 0)[0], axes.at(0, threshold)[1] - 7, "threshold 70 %", "small")
    early = int(np.flatnonzero((rates >= threshold) & (xs >= 20))[0])
    x, y = axes.at(xs[early], rates[early])
    picture.dot(x, y, "three")
    picture.line([(x, y - 8), (x, 46)], "line")
    picture.text(x + 6, 42, f"episode {xs[early]}: the rate reaches the threshold", "small")
    x, y = axes.at(last, bounds[-1, 0])
    picture.dot(x, y, "two")
    picture.line([(x, y + 8), (x, 226)], "line")
    picture.text(x, 240, f"episode {last}: its lower bound does. Promotion", "small bold end")
    picture.line([(66, 320), (96, 320)], "curve s1")
    picture.text(104, 324, "success rate of the window", "soft small")
    picture.line([(290, 320), (320, 320)], "curve s1 dash")
    picture.text(328, 324, "lower bound of its interval", "soft small")
    picture.save()


KINDS = [("known before", "s1"), ("a coin flip", "s4"), ("impossible", "s3"), ("three that build on each other", "s2")]
"""The kinds of tasks in the picture of progress, and their colours."""


def progress() -> None:
    """Six tasks of four kinds: how often each succeeds, and how much each is practised."""
    picture = Picture("progress", "Learning progress: what is being learned is practised most", 340)
    runs, block, turns = 32, 32, 64
    shares, rates = np.zeros((turns, 6)), np.zeros((turns, 6))
    for seed in range(runs):
        rng, practised = np.random.default_rng(seed), np.zeros(3)
        with cursus.Teacher(cursus.LearningProgress(6), seed=seed) as teacher:
            for turn in range(turns):
                skill = 1 / (1 + np.exp(4 - practised / 40))
                truth = np.concatenate([[0.97, 0.5, 0.0], skill])
                shares[turn] += teacher.curriculum.weights() / runs
                rates[turn] += truth / runs
                given = teacher.assign(range(block))
                success = rng.random(block) < truth[given.tasks]
                taught = np.bincount(given.tasks, minlength=6)[3:]
                practised += taught * np.concatenate([[1.0], skill[:2]])  # nothing is learned before what it builds on
                teacher.report(given.tickets, success=success, returns=success.astype(float), lengths=[20] * block)
    xs = np.arange(turns) * block
    for left, values, title in ((66, rates, "Success"), (440, shares, "Share of what is practised")):
        axes = Axes(picture, left, 44, 300, 200, turns * block)
        axes.ticks(500, "episodes")
        picture.text(left, 26, title, "bold")
        for task in range(6):
            axes.curve(xs, values[:, task], KINDS[min(task, 3)][1])
    for x, (name, style) in zip((66, 216, 340, 464), KINDS, strict=True):
        picture.line([(x, 312), (x + 26, 312)], f"curve {style}")
        picture.text(x + 34, 316, name, "small")
    picture.save()


def resume() -> None:
    """Where a run goes on after it was killed."""
    picture = Picture("resume", "Back to the newest checkpoint with a student, or forward to the last event", 292)
    for y, title, about in (
        (40, "With a student", "back, so that both belong together"),
        (188, "Without", "forward: nothing is given up"),
    ):
        picture.text(20, y + 14, title, "bold")
        picture.text(20, y + 32, about, "soft small")
        picture.line([(236, y + 20), (620, y + 20)], "curve s1")
        for x in (316, 436):
            picture.dot(x, y + 20, "one", 7)
            picture.text(x, y, "checkpoint", "soft small mid")
        picture.text(620, y - 2, "killed", "bold small mid")
        picture.line([(613, y + 13), (627, y + 27)], "curve s3")
        picture.line([(613, y + 27), (627, y + 13)], "curve s3")
    picture.line([(616, 76), (560, 92), (492, 92), (442, 72)], "ink dash", end=True)
    picture.text(528, 110, "results after it are set aside", "soft small mid")
    picture.line([(436, 60), (436, 124), (730, 124)], "curve s2", end=True)
    picture.text(640, 142, "the same decisions as if never stopped", "small mid")
    picture.line([(436, 224), (452, 236), (604, 236), (618, 222)], "ink dash", end=True)
    picture.text(528, 254, "the record is applied again", "soft small mid")
    picture.line([(628, 208), (730, 208)], "curve s2", end=True)
    picture.text(684, 230, "goes on", "small mid")
    picture.save()


if __name__ == "__main__":
    for draw in (tickets, start_order, gates, progress, resume):
        draw()
