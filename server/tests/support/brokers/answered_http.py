"""An HTTP client of a broker that a function answers instead of a host."""

import asyncio
from collections.abc import Callable

import httpx

from openbell_server.brokers.http_client import BrokerHttp, Reply, Request

ADDRESS = "http://broker"
Answering = Callable[[httpx.Request], httpx.Response]


class AnsweredHttp(BrokerHttp):
    def __init__(self, answer: Answering) -> None:
        super().__init__(ADDRESS)
        self.answer = answer

    async def query(self, request: Request) -> Reply:
        await asyncio.sleep(0)
        url = f"{ADDRESS}{request.target}"
        asked = httpx.Request(request.method, url, headers=dict(request.headers), content=request.content)
        response = self.answer(asked)
        return Reply(response.status_code, response.headers, response.content)
