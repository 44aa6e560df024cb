"""Takes pictures of the site's pages into build/screenshots, as a phone and as a desktop show them; run by hand.

    python tools/screenshots.py [PAGE…]

Without pages: the quickstart, the concepts and the three longest. Build the site first: make docs.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build/site"
PICTURES = ROOT / "build/screenshots"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SIZES = {"phone": (390, 5000), "desktop": (1280, 3000)}


def pages() -> list[str]:
    """The pages that are worth a look."""
    longest = sorted((ROOT / "docs").glob("*.md"), key=lambda path: path.stat().st_size, reverse=True)
    return list(dict.fromkeys(["quickstart", "concepts", *(path.stem for path in longest[:3])]))


def take(program: str, page: str, size: str) -> None:
    """One picture. Headless Chromium makes no window narrower than 500, so a phone is a frame in a page."""
    width, height = SIZES[size]
    with tempfile.TemporaryDirectory() as folder:
        frame = Path(folder) / "frame.html"
        address = (SITE / f"{page}.html").as_uri()
        style = f"border:0;width:{width}px;height:{height}px"
        frame.write_text(f'<body style="margin:0"><iframe style="{style}" src="{address}"></iframe>')
        picture = PICTURES / f"{page.replace('/', '-')}-{size}.png"
        command = [program, "--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=5000"]
        command += [f"--user-data-dir={folder}", f"--screenshot={picture}", f"--window-size={max(width, 500)},{height}"]
        subprocess.run([*command, frame.as_uri()], check=True, capture_output=True, timeout=120)
        print(picture.relative_to(ROOT))


def main() -> int:
    """Take them all."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        print("There is no Chromium here, so no pictures. On Debian: apt-get install chromium")
        return 0
    if not SITE.exists():
        print("There is no site yet: make docs")
        return 2
    PICTURES.mkdir(parents=True, exist_ok=True)
    chosen = sys.argv[1:] or pages()
    if missing := [page for page in chosen if not (SITE / f"{page}.html").exists()]:
        print(f"There is no such page: {', '.join(missing)}. The first page is index.")
        return 2
    for page in chosen:
        for size in SIZES:
            take(program, page, size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
