"""Judging: whether two schedulers decide alike in one situation. Nothing else knows when decisions are equal.

    judge = Judge(world.state)
    found = judge.placement(decide(...), "node-3")      # a decision here, and the node that another scheduler chose
    found.standing                                      # SAME, TIE, SAMPLED or BETTER
    found.plugins(world.state.table)                    # the plugins for which the node here is better

`judgement.py` has the answer, `judge.py` the rules, `node_orders.py` what sampling may leave out, and `order.py` which
bindings a scheduler counted that were seen in another order: `placements.py` asks whether one explains a decision. No
I/O, and no clock. compare, the page's next difference, replays with another policy and shadow ask here.

Other packages use `choices`, `judge`, `judgement`, `node_orders`, `order`, `placements`.
"""
