"""The drawings of the documentation: narrow, so that a phone can show them, on paper of their own, for dark pages."""

from html import escape
from typing import Final

WIDTH: Final = 480
LINE: Final = 20
STYLE: Final = (
    "text{font:15px system-ui,sans-serif;fill:#1f2430}"
    ".note{font-size:13.5px;fill:#4a5264}.bold{font-weight:600}.state text{font-size:13px}"
    ".box{fill:#fff;stroke:#3d4a63;stroke-width:1.5}.warm{fill:#fdf0d5;stroke:#b7791f}.cool{fill:#e3ecfb;stroke:#3b64ad}"
    ".good{fill:#e2f4e5;stroke:#2f7d41}.bad{fill:#fbe3e1;stroke:#b3382c}"
    ".line{fill:none;stroke:#3d4a63;stroke-width:1.5;marker-end:url(#head)}.dashed{stroke-dasharray:5 4}"
    ".door{stroke:#b3382c;stroke-width:4}"
)
HEAD: Final = (
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#3d4a63"/></marker>'
)
Place = tuple[float, float]


def sheet(height: int, title: str, parts: list[str]) -> str:
    """The whole picture."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n<defs>{HEAD}</defs>\n"
        f'<rect x="1" y="1" width="{WIDTH - 2}" height="{height - 2}" rx="10" fill="#fafaf7" stroke="#c9cdd6"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def text(x: float, y: float, lines: str, kind: str = "", anchor: str = "start") -> str:
    """One line below the other."""
    spans = "".join(
        f'<tspan x="{x:g}" y="{y + LINE * row:g}">{escape(line)}</tspan>' for row, line in enumerate(lines.split("\n"))
    )
    return f'<text class="{kind}" text-anchor="{anchor}">{spans}</text>'


def box(x: float, y: float, width: float, lines: str, kind: str = "") -> str:
    """A box with its lines in the middle; the first is bold."""
    first, *others = lines.split("\n")
    height = 16 + LINE * (1 + len(others))
    shown = [text(x + width / 2, y + 23, first, "bold", "middle")]
    if others:
        shown.append(text(x + width / 2, y + 23 + LINE, "\n".join(others), "note", "middle"))
    return f'<rect class="box {kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height}" rx="6"/>' + "".join(shown)


def arrow(*points: Place, dashed: bool = False) -> str:
    """A line through points with a head at its end."""
    path = "L".join(f"{x:g} {y:g}" for x, y in points)
    return f'<path class="line{" dashed" if dashed else ""}" d="M{path}"/>'


def intents_way() -> str:
    """From an intent to its events."""
    parts = [
        box(20, 16, 210, "You", "cool"),
        text(250, 36, "an intent: what you want,\nwith an idempotency key", "note"),
        arrow((125, 52), (125, 76)),
        box(20, 78, 210, "api"),
        text(250, 98, "evaluates the controls", "note"),
        arrow((125, 114), (125, 138)),
        box(20, 140, 210, "PostgreSQL\naction · receipt\noutbox row · event", "warm"),
        text(250, 168, "one transaction; then you\nget your 202", "note"),
        arrow((125, 216), (125, 240)),
        box(20, 242, 210, "relay"),
        text(250, 256, "notifies the executor of the\naccount's slot, through NATS", "note"),
        arrow((125, 278), (125, 302)),
        box(20, 304, 210, "executor"),
        text(250, 324, "evaluates them again", "note"),
        arrow((125, 340), (125, 384)),
        '<path class="door" d="M20 362H230"/>',
        text(250, 367, "the door, committed first", "bold"),
        box(20, 386, 210, "broker\nan order", "cool"),
        text(250, 406, "sent once, with an id\nmade from the action's id", "note"),
        arrow((125, 442), (125, 466)),
        box(20, 468, 210, "PostgreSQL\noutcome · executions\norder · position · events", "warm"),
        text(250, 496, "what the broker answers\nand reports, each once", "note"),
        arrow((125, 544), (125, 568)),
        box(20, 570, 210, "You, following", "cool"),
        text(250, 590, "gRPC, HTTP or webhook:\nevents 1, 2, 3 …", "note"),
    ]
    return sheet(626, "The path of an intent from the caller to the broker and back as events", parts)


def one_way_door() -> str:
    """What can become of a command behind its door."""
    parts = [
        box(140, 16, 200, "QUEUED\nrecorded, not sent"),
        text(350, 40, "a crash here:\nsent later, once", "note"),
        arrow((240, 72), (240, 116)),
        '<path class="door" d="M20 96H460"/>',
        text(24, 88, "the door", "bold"),
        box(140, 118, 200, "DISPATCHING\nsent to the broker, once"),
        arrow((170, 174), (85, 234)),
        arrow((225, 174), (225, 234)),
        arrow((300, 174), (345, 250)),
        text(44, 200, "accepted", "note"),
        text(150, 220, "rejected", "note"),
        text(332, 190, "no answer, or one\nthat proves nothing", "note"),
        box(20, 236, 130, "ACKED", "good"),
        box(165, 236, 130, "REFUSED", "bad"),
        box(330, 252, 130, "UNKNOWN", "warm"),
        arrow((395, 288), (395, 322)),
        box(100, 324, 360, "the executor looks up its id\nas often as needed; no timer ends this", "warm"),
        arrow((160, 380), (85, 440)),
        arrow((240, 380), (240, 440)),
        arrow((395, 380), (395, 440)),
        text(56, 406, "found", "note"),
        text(246, 416, "never arrived", "note"),
        text(401, 416, "no proof", "note"),
        box(20, 442, 130, "ACKED", "good"),
        box(165, 442, 150, "FAILED\nor sent again if the\nbroker enforces ids"),
        box(330, 442, 130, "UNKNOWN\nflagged for\nan operator", "warm"),
    ]
    return sheet(536, "The one-way door, and what follows when the broker does not answer", parts)


def scopes() -> str:
    """Which controls look at a command."""

    def frame(x: int, y: int, width: int, height: int, kind: str, title: str, note: str) -> str:
        shape = f'<rect class="box {kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>'
        return shape + text(x + 12, y + 24, title, "bold") + text(x + 12, y + 44, note, "note")

    parts = [
        frame(14, 14, 452, 382, "", "platform", "the operator's rules, for all"),
        frame(30, 74, 420, 306, "cool", "organization", "its admins' rules, for all of its accounts"),
        frame(46, 134, 246, 230, "", "account", "at one broker, paper or live"),
        frame(62, 194, 214, 84, "warm", "symbol, such as AAPL", "on this account\nswitch, times, rules"),
        frame(62, 288, 214, 60, "warm", "another symbol", "its own rules"),
        frame(306, 134, 130, 230, "good", "API key", "limits of one\nprogram, on\nall accounts\nit trades on"),
    ]
    parts.append(
        text(
            240,
            426,
            "All rules that apply are evaluated; each must pass.\nThe strictest switch applies.",
            "",
            "middle",
        )
    )
    return sheet(462, "The five scopes of controls: platform, organization, account, symbol and API key", parts)


DRAWINGS: Final = {"intents-way": intents_way, "one-way-door": one_way_door, "scopes": scopes}
