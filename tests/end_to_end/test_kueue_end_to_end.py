"""The real Kueue on a real API server: jobs with quota for all of them, and room for half."""

import pytest
from tests.support.kueue import Count, KueueError, kueue_cluster, kueue_program

JOBS = 40
ROOM = JOBS // 2
QUOTA = 3 * JOBS
"""CPUs: for all jobs."""


@pytest.fixture
async def queue():
    try:
        kueue_program()
    except KueueError as error:
        pytest.skip(str(error))
    async with kueue_cluster() as cluster:
        yield cluster


async def check_admissions(queue):
    """Half of the jobs have room. When some end, as many others start."""
    await queue.add_jobs(JOBS)
    full = Count(started=ROOM, placed=ROOM, pending_pods=0)
    assert await queue.until(full) == full
    await queue.end_jobs(5)
    assert await queue.until(full) == full


@pytest.mark.timeout(600)
async def test_no_job_is_admitted_that_can_not_start_and_none_waits_that_could(queue):
    await queue.add_nodes(ROOM)
    await queue.add_queue(QUOTA, check=True)
    async with queue.scheduler("--provisioning-requests"):
        await check_admissions(queue)


@pytest.mark.timeout(600)
async def test_the_same_beside_kube_scheduler(queue):
    await queue.add_nodes(ROOM)
    await queue.add_queue(QUOTA, check=True)
    try:
        async with queue.kube_scheduler():
            await check_admissions(queue)
    except KueueError as error:
        pytest.skip(str(error))


@pytest.mark.timeout(600)
async def test_with_quota_alone_jobs_are_admitted_that_can_not_start(queue):
    await queue.add_nodes(ROOM)
    await queue.add_queue(QUOTA, check=False)
    async with queue.scheduler():
        await queue.add_jobs(JOBS)
        expected = Count(started=JOBS, placed=ROOM, pending_pods=2 * (JOBS - ROOM))
        found = await queue.until(expected, stays=2)
        assert found.started == JOBS
        assert found.placed <= ROOM
        assert found.pending_pods == 2 * (JOBS - ROOM)
