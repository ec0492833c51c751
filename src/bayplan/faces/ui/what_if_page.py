"""The page of what-ifs: a basket of changes, and the changed cluster next to today's.

GET shows the basket of the address, or leads to that of the cookie; it changes nothing, so that addresses can be
shared. POST changes the basket of the cookie, and leads to its address. A basket that is too large for a cookie is only
in its address.
"""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import web

from bayplan.answers.insight.answers import QuestionError
from bayplan.answers.insight.questions.comparing import summary
from bayplan.faces.ui.app import PageError, PageRequest
from bayplan.faces.ui.basket import LONGEST, REPLACE_ALL, TITLES, Basket, compare_sides, faulty_entry
from bayplan.faces.ui.pages import FEW_NODES, LARGE_PAUSE


async def what_if_page(visit: PageRequest) -> web.Response:
    """Return the cluster after a basket of changes, next to today's."""
    kept, shown = Basket.read(visit.basket), Basket.of(visit.items)
    if kept.entries and not shown.entries:
        return visit.redirect(f"/what-if?{kept.query()}")
    resource = visit.query.get("resource", "cpu")
    sides, problem, faulty = None, "", None
    if shown.entries:
        try:
            sides = await visit.ask(
                ("what-if", shown, resource),
                lambda insight, progress: compare_sides(insight, shown, resource, progress),
            )
        except QuestionError as error:
            problem = str(error)
            faulty = await visit.ask(("faulty", shown), lambda insight, _: faulty_entry(insight, shown))
    wrong = ("", "") if faulty is None or shown.entries[faulty][0] not in TITLES else shown.entries[faulty]
    moves = any(field == REPLACE_ALL for field, _ in shown.entries)
    often = sides is not None and sides.after.nodes <= FEW_NODES and not moves
    return visit.page(
        "what_if.html",
        basket=shown,
        is_kept=shown == kept,
        replaces_all=moves,
        summary=summary,
        titles=TITLES,
        sides=sides,
        problem=problem,
        faulty=faulty,
        wrong=wrong,
        every=LARGE_PAUSE if often else 0,
        title="What if",
    )


async def change_basket(visit: PageRequest) -> web.Response:
    """Change the basket that a form shows, by default the kept one; keep it, and lead to its page.

    The form has new changes, or `take_out` with the number of a change, which new ones replace, or `empty`.
    """
    fields = await visit.form()
    form = dict(fields)
    basket = Basket.read(form.get("basket", visit.basket))
    if "empty" in form:
        basket = Basket()
    else:
        basket = basket.without(form.get("take_out", "")).with_all(Basket.of(fields, basket.namespace))
    query = basket.query()
    if len(query) > LONGEST:
        raise PageError(HTTPStatus.BAD_REQUEST, "the basket is full: take changes out, or begin with an empty one")
    keep = query if basket.fits_cookie else None
    return visit.redirect(f"/what-if?{query}" if query else "/what-if", basket=keep)
