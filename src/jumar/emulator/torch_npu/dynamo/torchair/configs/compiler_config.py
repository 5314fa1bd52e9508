"""`torchair.configs.compiler_config`."""

__all__ = ["CompilerConfig"]


class CompilerConfig:
    """Settings of a compilation; `mode` is "max-autotune" (GE) or "reduce-overhead" (NPUGraph)."""

    def __init__(self) -> None:
        self.mode = "max-autotune"
