"""The page at `/`: models, devices, jobs, a form to try each model, reports.

It is a client of the routes in `jumar.server.routes`: what it changes, it changes through them (a
form posts `/v1/generate`, a button deletes `/v1/jobs/…`), and what it shows are the same functions'
rows as HTML. The shell at `/` and its four files hold no data, and are open to all; the fragments
below `/page/` need a key where the server has keys.
"""

from __future__ import annotations
