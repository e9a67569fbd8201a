"""Python's view of a Kina runtime, made from the header."""

from .header import Header, Parameter, Prototype
from .runtime import Observer, Runtime, interface

__all__ = ["Header", "Observer", "Parameter", "Prototype", "Runtime", "interface"]
