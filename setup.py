"""The loops in C: built once for all Pythons from 3.11 on, and anew for those without a lock, which refuse that."""

import sysconfig

from setuptools import Extension, setup

SHARED = not sysconfig.get_config_var("Py_GIL_DISABLED")

# Never -ffast-math: NumPy, which does what these loops do where there is no C compiler, must agree with them.
FLAGS = ["-std=c11", "-O3", "-ffp-contract=off", "-fvisibility=hidden", "-Wall", "-Wextra"]

setup(
    ext_modules=[
        Extension(
            "populace._native._kernels",
            sources=[
                f"src/populace/_native/{name}.c"
                for name in (
                    "cell_move_plan",
                    "cell_moves",
                    "denoise",
                    "integer_transportation",
                    "junction_ipf",
                    "kernels",
                    "transportation",
                    "variable_elimination",
                )
            ],
            depends=[
                f"src/populace/_native/{name}.h" for name in ("cell_move_plan", "kernels", "transportation")
            ],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if SHARED else [],
            extra_compile_args=FLAGS,
            py_limited_api=SHARED,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if SHARED else {},
)
