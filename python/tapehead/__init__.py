"""Tapehead for Python: the gradient checker.

    import tapehead
    tapehead.gradcheck(fn, inputs)          # PyTorch
    tapehead.gradcheck(fn, inputs, vjp=vjp)  # NumPy, and any other library through NumPy
"""

from .gradient_check import GradcheckError, Report, check, gradcheck

__all__ = ["GradcheckError", "Report", "check", "gradcheck"]
