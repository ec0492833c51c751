import asyncio
import json

import pytest

from bayplan.client import ApiError, TransportError
from bayplan.running.service.serving.options import DelegatingAuthorization, ServingOptions
from bayplan.running.service.serving.reviews import AuthenticatedUser, ReviewFailedError, Reviews

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ALICE = AuthenticatedUser("alice", ("devs",), "u1", {"scopes": ["a"]})


class Reviewer:
    """An API server that knows one token and allows everyone to read /metrics."""

    def __init__(self) -> None:
        self.asked = []
        self.error = None

    async def request(self, method, path, *, body):
        document = json.loads(body)
        self.asked.append((path, document["spec"]))
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        spec = document["spec"]
        if path == TOKENS:
            known = spec["token"] == "good"
            user = {"username": "alice", "uid": "u1", "groups": ["devs"], "extra": {"scopes": ["a"]}}
            return json.dumps({"status": {"authenticated": True, "user": user} if known else {"user": {}}}).encode()
        allowed = spec["nonResourceAttributes"]["path"] == "/metrics"
        return json.dumps({"status": {"allowed": allowed, "reason": "" if allowed else "no rule"}}).encode()


@pytest.fixture
def reviewer():
    return Reviewer()


@pytest.fixture
def reviews(reviewer, clock):
    return Reviews(
        reviewer, ServingOptions(authorization=DelegatingAuthorization(unauthorized_cache_ttl=2)), clock.monotonic
    )


async def test_token_review_returns_the_user(reviews, reviewer) -> None:
    assert await reviews.user_of("good") == ALICE
    assert await reviews.user_of("bad") is None
    assert reviewer.asked == [(TOKENS, {"token": "good"}), (TOKENS, {"token": "bad"})]


async def test_access_review_returns_decision_and_reason(reviews, reviewer) -> None:
    assert await reviews.authorize(ALICE, "get", "/metrics") == (True, "")
    assert await reviews.authorize(ALICE, "get", "/configz") == (False, "no rule")
    [(path, spec), _] = reviewer.asked
    assert path == ACCESS
    assert spec == {
        "user": "alice",
        "groups": ["devs"],
        "uid": "u1",
        "extra": {"scopes": ["a"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


async def test_access_reviews_are_cached_by_extra_fields_too(reviews, reviewer) -> None:
    for extra in ({"scopes": ["a"]}, {"scopes": ["b"]}, {}, {"scopes": ["b"]}):
        await reviews.authorize(AuthenticatedUser("alice", extra=extra), "get", "/metrics")
    assert [spec.get("extra") for _, spec in reviewer.asked] == [{"scopes": ["a"]}, {"scopes": ["b"]}, None]


async def test_reviews_are_cached_for_their_ttl(reviews, reviewer, clock) -> None:
    for moment, asked in ((0.0, 3), (1.9, 3), (2.1, 4), (9.9, 5), (10.1, 7)):
        clock.seconds = 1000.0 + moment
        await reviews.user_of("good")
        await reviews.authorize(ALICE, "get", "/metrics")
        await reviews.authorize(ALICE, "get", "/configz")
        assert len(reviewer.asked) == asked, moment


async def test_concurrent_callers_share_a_review(reviews, reviewer) -> None:
    assert await asyncio.gather(*(reviews.user_of("good") for _ in range(5))) == [ALICE] * 5
    assert len(reviewer.asked) == 1


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            ApiError(403, "Forbidden", "tokenreviews is forbidden"),
            "the API server did not answer a TokenReview: .*forbidden",
        ),
        (TransportError("connection refused", sent=False), "the API server did not answer a TokenReview: .*refused"),
    ],
)
async def test_failed_reviews_are_not_cached(reviews, reviewer, error, message) -> None:
    reviewer.error = error
    with pytest.raises(ReviewFailedError, match=message):
        await reviews.user_of("good")
    reviewer.error = None
    assert await reviews.user_of("good") == ALICE


async def test_review_without_an_api_server_fails(clock) -> None:
    reviews = Reviews(None, ServingOptions(), clock.monotonic)
    with pytest.raises(ReviewFailedError, match="there is no API server for a TokenReview"):
        await reviews.user_of("good")
