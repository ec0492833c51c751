import asyncio
import json

import pytest

from bayplan.client import ApiError, TransportError
from bayplan.service.serving.reviews import ReviewFailedError, Reviews, User

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ALICE = User("alice", ("devs",), "u1", {"scopes": ["a"]})


class Reviewer:
    """An API server that knows one token and lets users read /metrics."""

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
    return Reviews(reviewer, token_ttl=10, allowed_ttl=10, denied_ttl=2, now=clock.monotonic)


async def test_whose_token_it_is(reviews, reviewer) -> None:
    assert await reviews.user_of("good") == ALICE
    assert await reviews.user_of("bad") is None
    assert reviewer.asked == [(TOKENS, {"token": "good"}), (TOKENS, {"token": "bad"})]


async def test_what_a_user_may_do(reviews, reviewer) -> None:
    assert await reviews.may(ALICE, "get", "/metrics") == (True, "")
    assert await reviews.may(ALICE, "get", "/configz") == (False, "no rule")
    [(path, spec), _] = reviewer.asked
    assert path == ACCESS
    assert spec == {
        "user": "alice",
        "groups": ["devs"],
        "uid": "u1",
        "extra": {"scopes": ["a"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


async def test_who_says_more_of_themselves_is_asked_about_anew(reviews, reviewer) -> None:
    for extra in ({"scopes": ["a"]}, {"scopes": ["b"]}, {}, {"scopes": ["b"]}):
        await reviews.may(User("alice", extra=extra), "get", "/metrics")
    assert [spec.get("extra") for _, spec in reviewer.asked] == [{"scopes": ["a"]}, {"scopes": ["b"]}, None]


async def test_answers_are_remembered_for_their_time(reviews, reviewer, clock) -> None:
    for moment, asked in ((0.0, 3), (1.9, 3), (2.1, 4), (9.9, 5), (10.1, 7)):
        clock.seconds = 1000.0 + moment
        await reviews.user_of("good")
        await reviews.may(ALICE, "get", "/metrics")
        await reviews.may(ALICE, "get", "/configz")
        assert len(reviewer.asked) == asked, moment


async def test_those_who_ask_at_once_share_an_answer(reviews, reviewer) -> None:
    assert await asyncio.gather(*(reviews.user_of("good") for _ in range(5))) == [ALICE] * 5
    assert len(reviewer.asked) == 1


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ApiError(403, "Forbidden", "tokenreviews is forbidden"),
            "the API server did not answer a TokenReview: .*forbidden",
        ),
        (TransportError("connection refused", sent=False), "the API server did not answer a TokenReview: .*refused"),
    ],
)
async def test_no_answer_is_no_verdict_and_not_remembered(reviews, reviewer, error, said) -> None:
    reviewer.error = error
    with pytest.raises(ReviewFailedError, match=said):
        await reviews.user_of("good")
    reviewer.error = None
    assert await reviews.user_of("good") == ALICE


async def test_without_a_server_nobody_can_be_asked(clock) -> None:
    reviews = Reviews(None, token_ttl=10, allowed_ttl=10, denied_ttl=10, now=clock.monotonic)
    with pytest.raises(ReviewFailedError, match="there is no API server to ask for a TokenReview"):
        await reviews.user_of("good")
