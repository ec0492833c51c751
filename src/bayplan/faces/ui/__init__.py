"""The web page: a cluster as a bay plan, its queue, its pods and nodes, and what-ifs. It only reads the cluster.

A page is a function of a request (`routes.py` lists them) that returns HTML from a template. Questions are asked in the
worker thread of `bayplan.faces.asking`, so the event loop never waits for a World. Each moment of a history or a
recording is a source of its own (`moments.py`), and part of the address (`addresses.py`), so tabs are independent. The
guard lets in requests with the token that come from the page itself. The only POST changes the basket, which is kept in
a cookie.

Start at `app.py`. To add a page: a function in `pages.py` or a file of its own, its template, its line in `routes.py`.
To add a question with a form: its line in `QUESTIONS` of `questions_page.py`; `answer_parts.py` shows any answer. A
what-if is a basket of changes (`basket.py`) on its page (`what_if_page.py`). What every object has is in `about.py`.

Other packages use `moments`, `server`, `shadow_file`.
"""
