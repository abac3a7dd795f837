"""Sphinx's settings for the site: Markdown, the theme furo, nothing loaded from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

project = "Hearsay"
html_title = "Hearsay"
extensions = ["myst_parser"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
suppress_warnings = ["misc.highlighting_failure"]
html_theme = "furo"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
# The search would fetch a summary of each hit. Browsers refuse that for file: URLs, and the search would stop at the
# first hit.
html_show_search_summary = False
html_show_sphinx = False
html_show_copyright = False
smartquotes = False
highlight_language = "none"
pygments_style = "a11y-light"
pygments_dark_style = "github-dark"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5cad", "color-brand-content": "#0b5cad"},
    "dark_css_variables": {"color-brand-primary": "#79b8ff", "color-brand-content": "#79b8ff"},
}

_FOR_READERS = {
    r'<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    r'<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Pages">',
    r'<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="On this page">',
    r'<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    r'<div class="highlight"><pre>': '<div class="highlight"><pre tabindex="0">',
    r'<th class="head"><p></p>\s*</th>': "<td></td>",
}
"""Replacements of HTML, by regular expression: attributes for screen readers and the keyboard that the generator and
its theme leave out.
"""


def _add_attributes(app: Any, error: Exception | None) -> None:
    for page in [] if error else Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for found, better in _FOR_READERS.items():
            text = re.sub(found, better, text)
        page.write_text(text, encoding="utf-8")


def setup(app: Any) -> None:
    app.connect("build-finished", _add_attributes)
