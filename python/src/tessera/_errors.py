# SPDX-License-Identifier: Apache-2.0
"""The one exception of this package."""


class TesseraError(Exception):
    """What went wrong, in one sentence.

    ``code`` is the program's exit code (2: bad input, 1: a fault of Tessera) or the C library's
    code (``tessera_code`` of tessera.h); -1 where neither could be started.
    """

    def __init__(self, message: str, code: int = -1) -> None:
        super().__init__(message)
        self.code = code
