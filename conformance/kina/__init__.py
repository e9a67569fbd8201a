"""Python's view of a Kina runtime, made from the header: raw calls (`Runtime`), tensors, compiled programs."""

from .current import current, use
from .dlpack import from_dlpack
from .dtypes import DTYPES, Dtype
from .errors import CopyNeededError, ExchangeError, KinaError
from .header import Header, Parameter, Prototype
from .program import Program, ProgramError, load
from .runtime import Observer, Runtime, interface
from .tensor import Tensor, asarray, empty, zeros

__all__ = [
    "DTYPES",
    "CopyNeededError",
    "Dtype",
    "ExchangeError",
    "Header",
    "KinaError",
    "Observer",
    "Parameter",
    "Program",
    "ProgramError",
    "Prototype",
    "Runtime",
    "Tensor",
    "asarray",
    "current",
    "empty",
    "from_dlpack",
    "interface",
    "load",
    "use",
    "zeros",
]
