"""The conformance suite for the Kina runtime ABI."""

from .clauses import clause
from .executor import Call, Executor, Record, Result, Violation
from .memory import Buffer, Handle, Params, Tensor
from .version import VERSION

__all__ = ["Buffer", "Call", "Executor", "Handle", "Params", "Record", "Result", "Tensor", "Violation", "clause"]
__version__ = VERSION
