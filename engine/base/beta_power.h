// SPDX-License-Identifier: Apache-2.0
// beta^t for a t that grows by one a step, without libm: the same bits everywhere.
#pragma once

#include <cstdint>

namespace tessera {

/// The product of t betas, multiplied one after another, kept from step to step. Another beta, or a
/// smaller t (a checkpoint was loaded), begins anew; otherwise a call costs one multiplication for
/// each step since the last call.
class BetaPower {
 public:
  /// REQUIRES: t >= 0.
  float at(float beta, std::int64_t t) {
    if (beta != beta_ || t < t_) *this = BetaPower(beta, multiplications_);
    for (; t_ < t; ++t_, ++multiplications_) product_ *= beta_;
    return product_;
  }
  /// All that were ever done here.
  std::int64_t multiplications() const { return multiplications_; }

  BetaPower() = default;

 private:
  BetaPower(float beta, std::int64_t multiplications)
      : beta_(beta), multiplications_(multiplications) {}

  float beta_ = 1;
  float product_ = 1;
  std::int64_t t_ = 0;
  std::int64_t multiplications_ = 0;
};

}  // namespace tessera
