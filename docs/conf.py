"""How the site looks; `build.py` makes it."""

project = "nbgrad"
extensions = ["myst_parser", "sphinx_copybutton"]
myst_enable_extensions = ["attrs_block", "colon_fence", "deflist"]
myst_heading_anchors = 3
myst_heading_slug_func = "docs.reference.slug"
copybutton_exclude = ".linenos, .gp, .go"
smartquotes = False  # `--short` is no dash
html_theme = "furo"
html_title = "nbgrad"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = html_show_copyright = False
