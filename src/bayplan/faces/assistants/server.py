"""AssistantServer: lists the tools, asks the questions that are called, and tells their progress.

The SDK of the Model Context Protocol has the messages and transports; here is what a tool does. It only reads the
cluster.
"""

from __future__ import annotations

import logging
from importlib.metadata import version
from typing import Any, TextIO

from mcp import MCPError, types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from bayplan.answers.insight.answers import Progress, QuestionError
from bayplan.faces.asking.replies import FAILED, ServeError, one_line, telling
from bayplan.faces.asking.served_questions import ServedQuestions
from bayplan.faces.assistants.malformed import Wire
from bayplan.faces.assistants.tools import INSTRUCTIONS, failed, question_from, result, tool

log = logging.getLogger(__name__)

Context = ServerRequestContext[Any]


class AssistantServer:
    """Answers assistants. `sdk` is the server of the SDK, for any transport. `source`: what the cluster is called."""

    def __init__(self, questions: ServedQuestions, source: str) -> None:
        self._questions = questions
        self._tools = [tool(question) for question in questions.types.values()]
        self.sdk: Server[Any] = Server(
            "bayplan",
            version=version("bayplan"),
            instructions=INSTRUCTIONS.format(source=source),
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    async def run_on_stdio(self, requests: TextIO, answers: TextIO) -> None:
        """Answer the requests, one on each line, until they end."""
        wire: Any = Wire(requests, answers)
        async with stdio_server(stdin=wire, stdout=wire) as (reading, writing):
            await self.sdk.run(reading, writing, self.sdk.create_initialization_options())

    async def _list(self, _: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self._tools)

    async def _call(self, context: Context, call: types.CallToolRequestParams) -> types.CallToolResult:
        question_type = self._questions.types.get(call.name)
        if question_type is None:
            known = ", ".join(self._questions.types)
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {call.name!r}; there is {known}")
        steps = 0

        async def tell(text: str) -> None:
            nonlocal steps
            steps += 1
            await context.session.report_progress(steps, message=text)

        try:
            question, form = question_from(question_type, call.arguments or {})

            async def ask(progress: Progress) -> Any:
                return await self._questions.ask(question, form, progress)

            return result(question, await telling(ask, tell))
        except (QuestionError, ServeError) as error:
            return failed(one_line(str(error)))
        except Exception:
            log.exception("%s failed", call.name)
            return failed(FAILED)
