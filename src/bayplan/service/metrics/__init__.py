"""What is counted and timed, under kube-scheduler's names: `measuring.py` is written by the scheduler while it works,
`snapshot.py` is read off its state when somebody asks, `exposition.py` brings both into Prometheus' form.
"""
