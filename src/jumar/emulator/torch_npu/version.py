"""The version of the emulated torch_npu; its local part says that it is emulated."""

from jumar.emulator.finder import version

__version__ = version()
__all__ = ["__version__"]
