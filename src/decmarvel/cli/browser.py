"""Open the page in a browser, and serve the page of a mission that still flies."""

import os
import sys
import webbrowser
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from decmarvel.show.live import Live

PATIENCE_S = 60.0
"""Seconds for which the page can still be opened after the mission."""


def open_page(address: str) -> None:
    """Open an address in a browser. Does nothing on a machine without a display."""
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return
    webbrowser.open(address)


def invite(console: "Console", live: "Live") -> None:
    """Print the address of the page and open it, in a thread: the mission does not wait for the browser."""
    console.print(f"Watch it, on this machine: [bold]{live.address}[/]")
    Thread(target=open_page, args=(live.address,), daemon=True).start()


def see_out(console: "Console", live: "Live", patient: bool) -> None:
    """Keep the server until all pages have the whole mission, then close it. If patient, wait for a first page."""
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
