"""What every schema of what is taken in is made of."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

# Squares of curves and features are summed.
LARGEST_NUMBER = 1e100
MOST_FIELDS = 100

Number = Annotated[float, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER, allow_inf_nan=False)]


class Strict(BaseModel):
    """The base of everything that is taken in."""

    model_config = ConfigDict(strict=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _no_flood(cls, sent: Any) -> Any:
        # Each unknown field makes an error, and a million of them take gigabytes.
        if isinstance(sent, dict) and len(sent) > MOST_FIELDS:
            message = "{count} fields; nothing here has so many"
            raise PydanticCustomError("fields", message, {"count": len(sent)})
        return sent
