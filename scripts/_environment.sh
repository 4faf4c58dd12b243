# Sourced by the other scripts: `prepare EXTRA ...` makes a virtual environment with bed
# and these extras, in .venv or in $VENV, and sets $PYTHON to its interpreter.

prepare() {
  local venv=${VENV:-.venv} extras
  extras=$(IFS=,; echo "$*")
  if [ ! -x "$venv/bin/python" ]; then
    echo "creating $venv" >&2
    "${PYTHON:-python3}" -m venv "$venv"
  fi
  PYTHON=$venv/bin/python
  echo "installing bed[$extras]" >&2
  # Python compiles what is imported, which is a small part of what is installed, and
  # keeps it, also where the environment is one that would have every process do so anew.
  unset PYTHONDONTWRITEBYTECODE
  "$PYTHON" -m pip install --quiet --no-compile --editable ".[$extras]"
}

# The extra for the CUDA version that the driver supports, or nothing without a driver.
cuda_extra() {
  local version
  version=$(nvidia-smi 2>/dev/null | sed -n 's/.*CUDA[^:]*Version: *\([0-9]*\).*/\1/p' | head -n 1) || true
  case "$version" in
    "") ;;
    12) echo cuda12 ;;
    1[3-9] | [2-9][0-9]) echo cuda13 ;;
    *) echo "the driver supports CUDA $version; bed needs 12 or newer" >&2 ;;
  esac
}
