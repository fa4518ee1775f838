"""Pages in a browser, where there is one, and the mission that is shown on one while it flies."""

import os
import sys
import webbrowser
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from decmarvel.show.live import Live

PATIENCE_S = 60.0
"""How long the page of a mission that is over can still be opened."""


def open_page(address: str) -> None:
    """In a browser with a window, if this machine has one; silently not, otherwise."""
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return
    webbrowser.open(address)


def invite(console: "Console", live: "Live") -> None:
    """Say where the page is, and open it. A browser may take its time, which is not the mission's."""
    console.print(f"Watch it, on this machine: [bold]{live.address}[/]")
    Thread(target=open_page, args=(live.address,), daemon=True).start()


def see_out(console: "Console", live: "Live", patient: bool) -> None:
    """The mission is over: keep the server until the pages have all of it; if nobody is there, wait for somebody."""
    try:
        if live.listening:
            console.print("The page is still getting the mission. Ctrl-C ends this.", style="dim")
        elif patient and not live.served:
            console.print(f"The page can be opened for {PATIENCE_S:.0f} s more. Ctrl-C ends this.", style="dim")
        if live.wait(PATIENCE_S if patient else 0.0):
            console.print("The page has all of the mission, and stays in the browser.")
        elif patient:
            console.print("No page was there for the end; replay.html is the same.")
    except KeyboardInterrupt:
        console.print("Ended. A page that is open stays in the browser; replay.html is the same.")
    finally:
        live.close()
