"""The page of the lens: one HTML file that shows attention records and loads nothing else.

view       attention records as the page shows them, with the scripts view.js and view.css
report     the report of a training run, with the template report.html
document   the templates of this and of all other pages: frame.html, parts.html, page.css
"""

from saccade.lens.page.view import Records, page, page_of, view_inputs, view_json, view_model

__all__ = ["Records", "page", "page_of", "view_inputs", "view_json", "view_model"]
