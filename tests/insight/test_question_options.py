"""A question's struct makes the options of its command, and the arguments that a person would type."""

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.answers.insight.asked.capacity import AskCapacity
from bayplan.answers.insight.asked.drain import AskDrain
from bayplan.answers.insight.asked.explain import ExplainWorkload
from bayplan.answers.insight.asked.scale_up import AskScaleUp
from bayplan.answers.insight.asked.usage import AskUsage, Grouping
from bayplan.answers.insight.asked.what_if import AskWhatIf
from bayplan.answers.insight.question_types import QUESTIONS
from bayplan.faces.cli import main

NAMES = st.from_regex("[a-z]{1,3}", fullmatch=True)
LISTS = st.lists(NAMES, max_size=3)
SELECTORS = st.sampled_from(["", "a=b"])
ASKED = st.one_of(
    st.builds(
        AskDrain,
        nodes=LISTS,
        selector=SELECTORS,
        ignore_daemonsets=st.booleans(),
        delete_emptydir_data=st.booleans(),
        force=st.booleans(),
        at_once=st.booleans(),
    ),
    st.builds(
        AskUsage,
        namespace=st.none() | NAMES,
        selector=SELECTORS,
        by=st.lists(st.sampled_from(Grouping.__args__), max_size=3),
    ),
    st.builds(AskScaleUp, namespace=st.none() | NAMES, selector=SELECTORS, pools=LISTS, most=st.integers(1, 5000)),
)


def parsed(question):
    """What the command of a question gets of the arguments that a person would type."""
    name, *arguments = question.arguments()
    command = main.get_command(click.Context(main), name)
    return command.make_context(name, arguments).params


@given(ASKED)
def test_a_command_reads_what_the_question_spells(question):
    read = parsed(question)
    for field in question.__struct_fields__:
        value, found = getattr(question, field), read.get(field) or None
        if field in {"objects", "prices"}:  # these are files, which the cases don't have
            assert not value
            assert found is None
        else:
            assert (list(found) if isinstance(found, tuple) else found) == (value or None)


@pytest.mark.parametrize("name", sorted(name for name, question in QUESTIONS.items() if question.spoken))
def test_all_parameters_can_be_given_to_the_command(name):
    command = main.get_command(click.Context(main), name)
    assert set(QUESTIONS[name].__struct_fields__) <= {parameter.name for parameter in command.params}


def test_the_default_namespace_is_shown_with_names_that_need_it():
    assert ExplainWorkload(workload="job/a").command() == ["bayplan", "explain", "job/a", "-n", "default"]
    assert AskWhatIf(scale=["job/a=1"]).command() == ["bayplan", "what-if", "--scale", "job/a=1", "-n", "default"]
    assert AskWhatIf(cordon=["a"], namespace="b").command() == ["bayplan", "what-if", "--cordon", "a"]


def test_pairs_and_files_are_spelled_one_by_one():
    labelled = AskWhatIf(labels=[("a", "k=v"), ("b", "k-")], replace_all=True)
    assert labelled.command()[2:] == ["--label", "a", "k=v", "--label", "b", "k-", "--replace-all"]
    counted = AskCapacity(kinds=[], most=3, labels=["zone", "arch"])
    assert counted.command()[2:] == ["--most", "3", "--by", "zone", "--by", "arch"]
