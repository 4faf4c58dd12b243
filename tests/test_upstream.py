"""NumPy's and SciPy's own tests of eigh and eigvalsh, with bed in their place.

Both ship their tests. Their classes are derived from here, one for one, and the names
`eigh` and `eigvalsh` mean bed's functions wherever the tests look them up. Which tests
exist depends on the versions installed.
"""

import functools
import importlib
import sys
import types

import pytest

import bed
from bed.engines import engines

NP, SP = "numpy.linalg.tests.test_", "scipy.linalg.tests.test_"
THREADS = "numpy._core.tests.test_multithreading"  # functions, not in a class
# Class here: module and class upstream, and which of its tests if not all.
SOURCES = {
    "TestNumpyEigh": (NP + "linalg", "TestEigh"),
    "TestNumpyEighCases": (NP + "linalg", "TestEighCases"),
    "TestNumpyEigvalsh": (NP + "linalg", "TestEigvalsh"),
    "TestNumpyEigvalshCases": (NP + "linalg", "TestEigvalshCases"),
    "TestNumpyRegression": (NP + "regression", "TestRegression", "test_eigh_build"),
    "TestNumpyThreads": (THREADS, None, "test_eigvalsh_thread_safety"),
    "TestScipyEigh": (SP + "decomp", "TestEigh"),
    "TestScipyOverwrite": (SP + "decomp", "TestOverwrite", "test_eigh test_eigvalsh"),
    "TestScipyBatch": (SP + "batch", "TestBatch", "test_eigh"),
}

# Fewer tests than this left of a library means that it was reorganised.
MINIMUM = {"numpy": 12, "scipy": 7}

OTHER_TYPE = "asks for A B x = λ x or B A x = λ x: bed solves A x = λ B x"

# Test, or test with values of its parameters, and why it cannot apply.
SKIPPED = {
    "TestScipyEigh.test_wrong_inputs": "nearly all calls have other types of problem "
    "and subsets, which bed does not offer",
    "TestScipyEigh.test_eigh_of_sparse": "expects ValueError for an array of "
    "objects, where bed documents TypeError, as for every other dtype",
    "TestScipyEigh.test_various_drivers_generalized type=2": OTHER_TYPE,
    "TestScipyEigh.test_various_drivers_generalized type=3": OTHER_TYPE,
    "TestScipyBatch.test_eigh fun_n_nout=eigvals,1": "eigvals is another function",
    "TestScipyBatch.test_eigh engine=reference": "expects results that do "
    "not depend on the batch, which this engine does not promise",
    "TestNumpyEighCases.test_generalized_herm_cases engine=raw_cuda_emulated": "asks "
    "for less than two units in the last place of a float32 eigenvalue, because NumPy "
    "computes float32 in float64",
}


def numpy_functions(driver):
    """`numpy.linalg`'s signatures on top of bed."""
    options = {"check": True, "driver": driver}
    return [functools.partial(f, **options) for f in (bed.eigh, bed.eigvalsh)]


# Values that ask for all of A x = λ x or A x = λ B x. LAPACK's routines for it are
# replaced by the engine, and bed never overwrites. Versions that have other options are
# met by a skip.
WHOLE_PROBLEM = {
    "overwrite_a": (False, True),
    "overwrite_b": (False, True),
    "type": (1,),
    "driver": (None, "ev", "evd", "evr", "evx", "gv", "gvd", "gvx"),
}
WAYS = ("index", "value")  # to choose a subset by


def scipy_functions(driver):
    """`scipy.linalg`'s signatures on top of bed."""

    def end_of(w, v, k, which):
        part = slice(len(w) - k, None) if which == "largest" else slice(k)
        return w[part], v[:, part]

    def subset(pairs, n, by_index, by_value):
        """Pairs from an end; of others, and of those by value, a part."""
        if by_value is not None:
            w, v = pairs(n, "largest")
            kept = (w > by_value[0]) & (w <= by_value[1])
            return w[kept], v[:, kept]
        first, last = by_index
        if last == n - 1:
            return pairs(n - first, "largest")
        w, v = pairs(last + 1, "smallest")
        return w[first:], v[:, first:]

    def eigh(a, b=None, *, lower=True, eigvals_only=False, check_finite=True, **more):
        by_index, by_value = (more.pop(f"subset_by_{x}", None) for x in WAYS)
        for name, value in more.items():
            if value not in WHOLE_PROBLEM.get(name, ()):
                pytest.skip(f"not listed; bed has no {name}={value!r}")
        if by_index is not None or by_value is not None:
            options = {"UPLO": "L" if lower else "U", "check": check_finite}
            pairs = functools.partial(bed.eigh_extremal, a, driver=driver, **options)
            if b is not None:
                found = bed.eigh(a, b=b, driver=driver, **options)
                pairs = functools.partial(end_of, *found)
            w, v = subset(pairs, len(a), by_index, by_value)
            return w if eigvals_only else (w, v)
        solve = bed.eigvalsh if eigvals_only else bed.eigh
        uplo = "L" if lower else "U"
        return solve(a, uplo, b=b, check=check_finite, driver=driver)

    def eigvalsh(a, b=None, **more):
        return eigh(a, b, eigvals_only=True, **more)

    return [eigh, eigvalsh]


class Namespace(types.ModuleType):
    """A module with some of its names replaced."""

    def __init__(self, module, **replaced):
        super().__init__(module.__name__)
        self.module = module
        vars(self).update(replaced)

    def __getattr__(self, name):
        return getattr(self.module, name)


def replacements(library, driver, calls):
    """Pairs of what tests may hold of a library, and what they get instead."""

    def counted(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            calls.append(function)
            return function(*args, **kwargs)

        return call

    package = importlib.import_module(library)
    linalg = importlib.import_module(f"{library}.linalg")
    functions = numpy_functions if library == "numpy" else scipy_functions
    eigh, eigvalsh = map(counted, functions(driver))
    replaced = Namespace(linalg, eigh=eigh, eigvalsh=eigvalsh)
    return [
        (package, Namespace(package, linalg=replaced)),
        (linalg, replaced),
        (linalg.eigh, eigh),
        (linalg.eigvalsh, eigvalsh),
    ]


@pytest.fixture(
    params=[e.name for e in engines() if "cpu" in e.devices and not e.missing()]
)
def engine(request):
    """The fixture `driver` under another name: upstream has parameters of that one."""
    return request.param


@pytest.fixture
def in_place_of_upstream(request, engine, monkeypatch):
    """Hand bed's functions to an upstream test, and see that it calls them."""
    parameters = request.node.callspec.params
    described = {f"{request.cls.__name__}.{request.node.originalname}"}
    described |= {f"{name}={_short(value)}" for name, value in parameters.items()}
    for key, reason in SKIPPED.items():
        if described.issuperset(key.split()):
            pytest.skip(reason)
    module, calls = request.cls.upstream, []
    pairs = replacements(module.__name__.partition(".")[0], engine, calls)

    def replace(value):
        return next((new for old, new in pairs if value is old), value)

    for name, value in list(vars(module).items()):
        if replace(value) is not value:
            monkeypatch.setattr(module, name, replace(value))
    for name, value in parameters.items():  # read when the module was imported
        new = tuple(map(replace, value)) if isinstance(value, tuple) else replace(value)
        request.node.funcargs[name] = new
    yield
    assert calls, "the test passed without calling bed"


def _short(value):
    """The value of a parameter, functions and types by their name."""
    if isinstance(value, tuple):
        return ",".join(map(_short, value))
    return getattr(value, "__name__", str(value))


class _Marks:
    """`pytest.mark`, where marks of plugins that only upstream uses do nothing."""

    def __getattr__(self, name):
        try:
            return getattr(_marks, name)
        except pytest.fail.Exception:
            return _no_mark


def _no_mark(*args, **kwargs):
    return args[0] if args and callable(args[0]) else lambda test: test


_marks = pytest.mark


def _load(name):
    """Import a module of tests, or None if it is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pytest, "mark", _Marks())
        # SciPy's conftest would set Hypothesis and multiprocessing up for all tests.
        conftest = types.ModuleType("scipy.conftest")
        conftest.skip_xp_invalid_arg = lambda test: test
        patch.setitem(sys.modules, conftest.__name__, conftest)
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            return None


def _derive(name, module_name, test_class, tests=None):
    """The class to be collected here, or None if this version has none such."""
    module = _load(module_name)
    body = {"pytestmark": [pytest.mark.usefixtures("in_place_of_upstream")]}
    body |= {"upstream": module, "__module__": __name__}
    tests = tests and tests.split()
    if test_class is None:
        found = {t: getattr(module, t) for t in tests if hasattr(module, t)}
        body |= {test: staticmethod(function) for test, function in found.items()}
        return type(name, (), body) if found else None
    base = getattr(module, test_class, None)
    if base is None:
        return None
    unwanted = {t for t in dir(base) if t.startswith("test")} - {*(tests or dir(base))}
    return type(name, (base,), body | dict.fromkeys(unwanted))


DERIVED = {name: _derive(name, *source) for name, source in SOURCES.items()}
globals().update({name: found for name, found in DERIVED.items() if found})


@pytest.mark.parametrize("library", MINIMUM)
def test_upstream_tests_are_run(library):
    """Enough of them are left; that each calls bed is seen as it runs."""
    if _load(f"{library}.linalg.tests") is None:
        pytest.skip(f"{library} is not installed, or without its tests")
    left = {
        f"{name}.{test}"
        for name, derived in DERIVED.items()
        if derived and derived.upstream.__name__.startswith(library)
        for test in dir(derived)
        if test.startswith("test") and getattr(derived, test)
    }
    assert len(left - set(SKIPPED)) >= MINIMUM[library], left


@pytest.mark.parametrize("key", SKIPPED)
def test_skipped_upstream_test_still_exists(key):
    test, *values = key.split()
    class_name, _, name = test.partition(".")
    if DERIVED[class_name] is None:
        pytest.skip(f"this version has no {class_name}")
    function = getattr(DERIVED[class_name], name)
    names = {m.args[0] for m in getattr(function, "pytestmark", ()) if m.args}
    assert {value.partition("=")[0] for value in values} <= names | {"engine"}
