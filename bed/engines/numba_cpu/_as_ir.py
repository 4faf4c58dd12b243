"""Functions that are compiled as a part of their callers alone.

Numba optimises and assembles every function together with all that it calls, and then
again in each of its callers: of the solver, three times as much as is ever run. A
function that is called by compiled code only is left as it is lowered; whoever calls it
optimises both as one, as it would do anyhow. This takes Numba's private classes, which
are the same from 0.60 on; `PIPELINE` is empty, and functions are compiled as Numba
does, if there are others.
"""

try:
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler
    from numba.core.compiler_machinery import PassManager

    _METHODS = ("_optimize_final_module", "_finalize_final_module")
    _KNOWN = all(hasattr(JITCodeLibrary, method) for method in _METHODS)
except ImportError:  # of Numba's insides, no version promises anything
    _KNOWN = False

PIPELINE: dict[str, type] = {}  # options of `numba.njit`

# Passes that find nothing to do in these functions, which have no closure, no list or
# array comprehension, no `with`, no tuple to be unrolled and no expression of arrays.
_IDLE = {
    "FindLiterallyCalls",
    "InlineClosureLikes",
    "InlineInlinables",
    "LiteralPropagationSubPipelinePass",
    "LiteralUnroll",
    "MakeFunctionToJitFunction",
    "NopythonRewrites",
    "RewriteSemanticConstants",
    "WithLifting",
}

if _KNOWN:

    class _Library(JITCodeLibrary):
        """What a function is lowered to, and what it calls, to be linked elsewhere."""

        def _optimize_final_module(self):
            """Left to the caller's library."""

        def _finalize_final_module(self):
            self._finalized = True

        def get_pointer_to_function(self, name):
            """Zero, as of functions that a library does not define."""
            return 0

        @property
        def codegen(self):
            return _WithoutEnvironment(self._codegen)

    class _WithoutEnvironment:
        """The code generator of a library that has no machine code to set up."""

        def __init__(self, codegen):
            self._codegen = codegen

        def __getattr__(self, name):
            return getattr(self._codegen, name)

        def set_env(self, name, environment):
            """The environment is for calls from Python."""

    class _Compiler(Compiler):
        def __init__(self, typingctx, targetctx, library, *rest):
            library = _Library(targetctx.codegen(), "left to its callers")
            super().__init__(typingctx, targetctx, library, *rest)

        def define_pipelines(self):
            (whole,) = super().define_pipelines()
            needed = PassManager("inside")
            for each, text in whole.passes:
                if each.__name__ not in _IDLE:
                    needed.add_pass(each, text)
            needed.finalize()
            return [needed]

    PIPELINE["pipeline_class"] = _Compiler
