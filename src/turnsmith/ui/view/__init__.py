"""Pages of runs in a browser: `turnsmith view`.

`opened` keeps the summaries of a run's journals, `answers` turns a run into JSON data, and `server` answers the browser's
requests. The folder `pages` holds HTML, CSS and JavaScript modules, which are sent as they are. All texts of agents are set
as text and never as HTML.
"""
