"""Errors as `application/problem+json`: the one place that maps the error tree to HTTP."""

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from service.api.schemas import FieldError, Problem
from service.errors import Invalid, Refusal, StoreUnavailable, TenantFrozen, Unauthenticated

log = logging.getLogger("zooming")

MEDIA_TYPE = "application/problem+json"
_LONGEST = 200
_NO_OBJECT = "The body must be a JSON object, sent as 'Content-Type: application/json'"


def problem(
    status: int,
    title: str,
    detail: str,
    *,
    errors: list[FieldError] | None = None,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """The answer to a request that failed."""
    body = Problem(title=title, status=status, detail=detail, errors=errors)
    return JSONResponse(
        body.model_dump(exclude_none=True), status, headers=headers, media_type=MEDIA_TYPE
    )


def problem_of(refusal: Refusal) -> Problem:
    """What a call that is refused would be told, for an item of a batch."""
    return Problem(title=refusal.title, status=refusal.status, detail=refusal.detail)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the OpenAPI texts: these statuses answer with a problem."""
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": Problem.model_json_schema()}},
        }
        for status in statuses
    }


def install(app: FastAPI) -> None:
    """Has every error of the app answered as a problem."""
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(StoreUnavailable, _store_unavailable)
    app.add_exception_handler(TenantFrozen, _frozen)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


async def _refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refusal)
    headers = {"WWW-Authenticate": "Bearer"} if isinstance(error, Unauthenticated) else None
    errors = None
    if isinstance(error, Invalid):
        errors = [FieldError(field=error.field, message=error.message)]
    return problem(error.status, error.title, error.detail, errors=errors, headers=headers)


async def _store_unavailable(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, StoreUnavailable)
    log.error("store unavailable", extra={**_about(request), "error": str(error)})
    return problem(
        error.status,
        error.title,
        "The store could not be reached or refused. Nothing was lost: send the same request again.",
        headers={"Retry-After": str(error.retry_after_seconds)},
    )


async def _frozen(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, TenantFrozen)
    return problem(
        error.status,
        error.title,
        "The tenant is being exported, and nothing of it may change for a while. Nothing was lost: "
        "send the same request again.",
        headers={"Retry-After": str(error.retry_after_seconds)},
    )


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    # The value sent is not echoed: NaN has no JSON, and a body may hold a secret or a megabyte.
    assert isinstance(error, RequestValidationError)
    found = [_field_error(item) for item in error.errors()[:20]]
    detail = "; ".join(
        f"{item.field}: {item.message}" if item.field else item.message for item in found
    )
    return problem(422, "The request is not valid", detail, errors=found)


def _field_error(item: Any) -> FieldError:
    location = item["loc"][1:]
    if item["type"] == "json_invalid":
        return FieldError(field="", message=f"The body is not JSON at character {location[0]}")
    if not location and item["type"] in ("missing", "model_attributes_type"):
        return FieldError(field="", message=_NO_OBJECT)
    field = ".".join(str(part) for part in location)
    return FieldError(field=_short(field), message=_short(item["msg"]))


def _short(text: str) -> str:
    """Names of unknown fields are the sender's, and as long as the sender likes."""
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


async def _http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 400:  # FastAPI's word for what its JSON parser chokes on
        return problem(422, "The request is not valid", "The body is not JSON that can be read")
    phrase = HTTPStatus(error.status_code).phrase
    headers = dict(error.headers) if error.headers else None
    return problem(error.status_code, phrase, str(error.detail), headers=headers)


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    log.error("unexpected error", extra=_about(request), exc_info=error)
    return problem(500, "Internal error", "This is a bug of the service; it has been logged.")


def _about(request: Request) -> dict[str, Any]:
    """Whose request it was: the handlers leave tenant and decision id in the request's state."""
    state = request.scope.get("state", {})
    return {
        "method": request.method,
        "path": request.url.path,
        "tenant": state.get("tenant", ""),
        "decision_id": state.get("decision_id", ""),
    }
