// Eigen's SelfAdjointEigenSolver over a batch, for `python -m bed bench --peers`.
//
// Compiled for one type at a time, -DSCALAR=, and one size, -DSIZE=: the n that Eigen
// shall know, or -1, its Eigen::Dynamic, for any.

#include <Eigen/Eigenvalues>
#include <complex>
#include <cstdint>

namespace {

using Matrix = Eigen::Matrix<SCALAR, SIZE, SIZE>;
using Solver = Eigen::SelfAdjointEigenSolver<Matrix>;
using Values = Solver::RealVectorType;
using Rows = Eigen::Matrix<SCALAR, SIZE, SIZE, Eigen::RowMajor>;

}  // namespace

// a (count, n, n), w (count, n), v (count, n, n) or null for eigenvalues alone.
// `direct` asks for the closed form. Returns how many matrices it failed on.
extern "C" int64_t solve(int64_t count, int64_t n, const SCALAR* a, Values::Scalar* w,
                         SCALAR* v, bool direct) {
  const int options = v ? Eigen::ComputeEigenvectors : Eigen::EigenvaluesOnly;
  Solver solver(n);
  int64_t failed = 0;
  for (int64_t i = 0; i < count; ++i, a += n * n, w += n) {
    const Eigen::Map<const Rows> matrix(a, n, n);
    if (direct)
      solver.computeDirect(matrix, options);
    else
      solver.compute(matrix, options);
    failed += solver.info() != Eigen::Success;
    Eigen::Map<Values>(w, n) = solver.eigenvalues();
    if (v) {
      Eigen::Map<Rows>(v, n, n) = solver.eigenvectors();
      v += n * n;
    }
  }
  return failed;
}

extern "C" int version(int part) {
  const int parts[] = {EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION};
  return parts[part];
}
