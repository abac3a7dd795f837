"""Sphinx's settings for the site: Markdown, the theme furo, nothing loaded from elsewhere."""

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
# Summaries would be fetched, which browsers refuse for files: the search would end at its first hit.
html_show_search_summary = False
html_show_sphinx = False
html_show_copyright = False
smartquotes = False
highlight_language = "none"
pygments_style = "friendly"
pygments_dark_style = "github-dark"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5cad", "color-brand-content": "#0b5cad"},
    "dark_css_variables": {"color-brand-primary": "#79b8ff", "color-brand-content": "#79b8ff"},
}
