"""Functions that are compiled as a part of their callers alone.

Numba optimises and assembles every function together with all that it calls, and then
again in each of its callers: of the solver, three times as much as is ever run. A
function that is called by compiled code only is left as it is lowered; whoever calls it
optimises both as one, as it would do anyhow. Nor is it brought to the form in which
every variable is assigned once, which LLVM does again, or told where a variable ends:
that is for counting references, and the caller of a function holds what it is given.
So it may take arrays, but make none. What an operation is for types of operands is
found once, and not at each place.

This takes Numba's private classes, which are the same from 0.60 on; `PIPELINE` is
empty, and functions are compiled as Numba does, if there are others.
"""

import secrets

from llvmlite.binding import Linkage
from numba import types
from numba.core import cgutils, ir

try:
    from numba.core.bytecode import FunctionIdentity
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler
    from numba.core.compiler_machinery import PassManager, register_pass
    from numba.core.lowering import Lower
    from numba.core.typed_passes import NativeLowering
    from numba.core.typing.context import BaseContext

    _MEMBERS = {
        BaseContext: ("resolve_function_type",),
        JITCodeLibrary: ("finalize", "_get_module_for_linking"),
        Lower: (
            "_alloca_var",
            "alloca_lltype",
            "decref",
            "incref",
            "lower_assign",
            "storevar",
        ),
        NativeLowering: ("lowering_class",),
    }
    _OF_LIBRARIES = {"_final_module", "_linking_libraries"}
    _KNOWN = (
        all(hasattr(x, member) for x, members in _MEMBERS.items() for member in members)
        and _OF_LIBRARIES <= {*JITCodeLibrary.__init__.__code__.co_names}
        and "unique_id" in FunctionIdentity.from_function.__code__.co_names
    )
except ImportError:  # of Numba's insides, no version promises anything
    _KNOWN = False

PIPELINE: dict[str, type] = {}  # options of `numba.njit`

_SIGNATURES: dict[tuple, object] = {}  # of functions, by types of arguments

# Passes that find nothing to do in these functions, which have no closure, no list or
# array comprehension, no `with`, no tuple to be unrolled and no expression of arrays;
# and those for what is named above.
_IDLE = {
    "AnnotateTypes",
    "DumpParforDiagnostics",
    "FindLiterallyCalls",
    "IRLegalization",
    "IRProcessing",
    "InlineClosureLikes",
    "InlineInlinables",
    "InlineOverloads",
    "LiteralPropagationSubPipelinePass",
    "LiteralUnroll",
    "MakeFunctionToJitFunction",
    "NoPythonSupportedFeatureValidation",
    "NopythonRewrites",
    "PreLowerStripPhis",
    "ReconstructSSA",
    "RewriteSemanticConstants",
    "WithLifting",
}

if _KNOWN:

    class _Library(JITCodeLibrary):
        """What a function is lowered to, to be linked elsewhere with what it calls."""

        def finalize(self):
            """Leave it as it is; linked here, it would be copied for every caller."""
            self._finalized = True

        def _get_module_for_linking(self):
            """The function and all that it calls, in a module of their own."""
            # From the last: what nothing has called so far would be left out.
            own, *others = reversed(self._modules({}).values())
            whole = own.clone()
            for module in others:
                whole.link_in(module, preserve=True)
            return whole

        def _modules(self, found):
            """Module by library, each behind all that it calls."""
            for library in self._linking_libraries:
                if library not in found:
                    if isinstance(library, _Library):
                        library._modules(found)
                    else:
                        found[library] = library._get_module_for_linking()
            for function in self._final_module.functions:
                if function.linkage == Linkage.external and not function.is_declaration:
                    function.linkage = Linkage.linkonce_odr  # others may have it too
            found[self] = self._final_module
            return found

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

    class _Lower(Lower):
        """Lowers variables to places on the stack, and counts no references."""

        def alloca_lltype(self, name, lltype, datamodel=None):
            """A place, without the size that a debugger is told."""
            return cgutils.alloca_once(self.builder, lltype, name=name, zfill=False)

        def storevar(self, value, name, argidx=None):
            """Store, without a load of what was there, nor what a debugger is told."""
            self._alloca_var(name, self.typeof(name))
            if name in self._singly_assigned_vars and not self._disable_sroa_like_opt:
                self._blk_local_varmap[name] = value
            else:
                self.builder.store(value, self.getvar(name))

        def incref(self, typ, val):
            """Whoever calls holds it."""

        def decref(self, typ, val):
            """Whoever calls lets go of it."""

        def lower_assign(self, ty, inst):
            """Refuse arrays that are made here: nothing would free them."""
            if isinstance(ty, types.Array) and isinstance(inst.value, ir.Expr):
                raise TypeError(f"an array is made inside of compiled code: {inst}")
            return super().lower_assign(ty, inst)

    @register_pass(mutates_CFG=True, analysis_only=False)
    class _Lowering(NativeLowering):
        _name = "lowering inside"

        @property
        def lowering_class(self):
            return _Lower

    class _Types:
        """A typing context that finds once what a function is for types of arguments.

        Numba tries all that the function may be, of which operators have many, at each
        place where it is called.
        """

        def __init__(self, context):
            self._context = context

        def __getattr__(self, name):
            return getattr(self._context, name)

        def resolve_function_type(self, func, args, kws):
            """The signature; what is refused is tried again, for the error."""
            call = func, tuple(args), tuple(dict(kws).items())
            found = _SIGNATURES.get(call)
            if found is None:
                found = self._context.resolve_function_type(func, args, kws)
                _SIGNATURES[call] = found
            return found

    class _Compiler(Compiler):
        def __init__(self, typingctx, targetctx, library, *rest):
            library = _Library(targetctx.codegen(), "left to its callers")
            super().__init__(_Types(typingctx), targetctx, library, *rest)

        def define_pipelines(self):
            # Numba counts functions in a process, and from disk come those of several:
            # two that differ in what they close over would have one symbol, and the one
            # that is loaded first would be run for both.
            self.state.func_id.unique_id = secrets.randbits(62)
            (whole,) = super().define_pipelines()
            needed = PassManager("inside")
            for each, text in whole.passes:
                if each.__name__ not in _IDLE:
                    needed.add_pass(_Lowering if each is NativeLowering else each, text)
            needed.finalize()
            return [needed]

    PIPELINE["pipeline_class"] = _Compiler
