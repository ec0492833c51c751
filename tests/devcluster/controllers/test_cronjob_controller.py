from typing import Any

from bayplan.core.api.kinds import CORE_EVENT, CRON_JOB, JOB, POD
from bayplan_devcluster.controllers.cronjob import SCHEDULED_TIMESTAMP
from bayplan_devcluster.controllers.job_status import finished_condition
from bayplan_devcluster.kubelet import EXIT_CODE, RUN_SECONDS

MINUTE_2026 = 29_453_760
"""Minutes from 1970 to 2026-01-01T00:00:00Z, the start of the world's clock."""


def cron_job(schedule: str = "* * * * *", *, run: float = 5, exit_code: int = 0, **spec: Any) -> dict[str, Any]:
    annotations = {RUN_SECONDS: str(run), EXIT_CODE: str(exit_code)}
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 1}
    template = {
        "metadata": {"labels": {"app": "tick"}},
        "spec": {"backoffLimit": 0, "template": {"metadata": {"annotations": annotations}, "spec": pod}},
    }
    return {
        "metadata": {"name": "tick", "namespace": "default"},
        "spec": {"schedule": schedule, "jobTemplate": template, **spec},
    }


def jobs(world) -> list[str]:
    return sorted(one.metadata.name for one in world.all(JOB))


def active(world) -> list[str]:
    return [one.name for one in world.one(CRON_JOB, "tick").status.active or ()]


async def event_reasons(world) -> set[str]:
    return {
        one.reason
        for one in (await world.client.list(CORE_EVENT, "default")).items
        if one.involvedObject.name == "tick"
    }


async def test_job_starts_at_each_due_time(world):
    await world.create(CRON_JOB, cron_job())
    await world.until(lambda: len(jobs(world)) == 2, step=2)
    assert jobs(world) == [f"tick-{MINUTE_2026 + 1}", f"tick-{MINUTE_2026 + 2}"]
    first = world.one(JOB, f"tick-{MINUTE_2026 + 1}")
    assert first.metadata.labels == {"app": "tick"}
    assert first.metadata.annotations[SCHEDULED_TIMESTAMP] == "2026-01-01T00:01:00Z"
    assert [(one.kind, one.name, one.controller) for one in first.metadata.ownerReferences] == [
        ("CronJob", "tick", True)
    ]
    await world.until(lambda: finished_condition(world.one(JOB, f"tick-{MINUTE_2026 + 2}")), step=1)
    await world.until(lambda: not active(world), step=0.1)
    status = world.one(CRON_JOB, "tick").status
    assert status.lastScheduleTime.isoformat() == "2026-01-01T00:02:00+00:00"
    assert status.lastSuccessfulTime > status.lastScheduleTime


async def test_allow_runs_jobs_concurrently(world):
    await world.create(CRON_JOB, cron_job(run=150))
    await world.until(lambda: len(active(world)) == 3, step=5)


async def test_forbid_skips_a_start_while_a_job_runs(world):
    await world.create(CRON_JOB, cron_job(run=100, concurrencyPolicy="Forbid"))
    await world.until(lambda: len(jobs(world)) == 1, step=2)
    await world.settle(65, step=2)
    assert jobs(world) == [f"tick-{MINUTE_2026 + 1}"]
    await world.until(lambda: len(jobs(world)) == 2, step=2)
    assert "JobAlreadyActive" in await event_reasons(world)


async def test_replace_deletes_the_running_job(world):
    await world.create(CRON_JOB, cron_job(run=1000, concurrencyPolicy="Replace"))
    await world.until(lambda: jobs(world) == [f"tick-{MINUTE_2026 + 1}"], step=2)
    await world.until(lambda: jobs(world) == [f"tick-{MINUTE_2026 + 2}"], step=2)
    await world.until(lambda: active(world) == [f"tick-{MINUTE_2026 + 2}"])
    await world.until(lambda: len(world.all(POD)) == 1, step=0.5)


async def test_suspended_cron_job_starts_no_jobs(world):
    await world.create(CRON_JOB, cron_job(suspend=True))
    await world.settle(180, step=10)
    assert jobs(world) == []
    await world.patch(CRON_JOB, "tick", {"spec": {"suspend": False}})
    await world.until(lambda: jobs(world), step=0)


async def test_start_after_the_deadline_is_missed(world):
    await world.create(CRON_JOB, cron_job("0 * * * *", suspend=True, startingDeadlineSeconds=60))
    await world.settle(3600 + 120, step=120)
    await world.patch(CRON_JOB, "tick", {"spec": {"suspend": False}})
    await world.settle(20, step=5)
    assert jobs(world) == []
    await world.until(lambda: jobs(world) == [f"tick-{MINUTE_2026 + 120}"], step=30)


async def test_only_the_latest_missed_start_runs(world):
    await world.create(CRON_JOB, cron_job(suspend=True))
    await world.settle(6 * 3600, step=600)
    await world.patch(CRON_JOB, "tick", {"spec": {"suspend": False}})
    await world.until(lambda: jobs(world))
    assert jobs(world) == [f"tick-{MINUTE_2026 + 360}"]


async def test_finished_jobs_beyond_the_history_limit_are_deleted(world):
    await world.create(CRON_JOB, cron_job(successfulJobsHistoryLimit=1))
    await world.until(lambda: f"tick-{MINUTE_2026 + 4}" in jobs(world), step=2)
    await world.until(lambda: jobs(world)[-2:] == jobs(world), step=1)


async def test_failed_jobs_have_a_separate_history_limit(world):
    await world.create(CRON_JOB, cron_job(exit_code=1, failedJobsHistoryLimit=2))
    await world.until(lambda: f"tick-{MINUTE_2026 + 5}" in jobs(world), step=2)
    await world.until(lambda: len(jobs(world)) <= 3, step=1)


async def test_schedule_is_in_its_time_zone(world):
    await world.create(CRON_JOB, cron_job("0 3 * * *", timeZone="Europe/Berlin"))
    await world.until(lambda: jobs(world), step=300)
    assert jobs(world) == [f"tick-{MINUTE_2026 + 120}"]
    annotations = world.all(JOB)[0].metadata.annotations
    assert annotations[SCHEDULED_TIMESTAMP] == "2026-01-01T03:00:00+01:00"
