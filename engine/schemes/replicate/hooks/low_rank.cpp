// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/replicate/hooks/low_rank.h"

#include <algorithm>
#include <cmath>

#include "engine/numbers/number.h"

namespace tessera {
namespace {

constexpr float rounding_error = 1e-5F;  // what is left of a column that others made up

Numel element_at(Numel offset, std::int64_t row, std::int64_t width, std::int64_t column) {
  return offset + Numel{row * width + column};
}

// splitmix64: uniform in [-1, 1).
float random_number(std::uint64_t seed) {
  std::uint64_t x = seed + 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  x ^= x >> 31;
  return static_cast<float>(x >> 40) * 0x1p-23F - 1.0F;
}

}  // namespace

float Numbers::at(Numel i) const {
  return load_number(read, dtype, static_cast<std::size_t>(i.value));
}
void Numbers::set(Numel i, float value) const {
  store_number(write, dtype, static_cast<std::size_t>(i.value), value);
}

LowRankPlan plan_low_rank(const std::vector<BucketParameter>& parameters, std::int32_t rank,
                          double min_compression_rate) {
  LowRankPlan plan;
  for (const BucketParameter& parameter : parameters) {
    LowRank m{.offset = parameter.offset, .p = plan.p, .q = plan.q};
    m.rows = parameter.shape.empty() ? 0 : parameter.shape[0];
    m.columns = m.rows > 0 ? parameter.numel.value / m.rows : 0;
    m.rank = std::min({m.rows, m.columns, std::int64_t{rank}});
    const bool smaller = static_cast<double>((m.rows + m.columns) * m.rank) * min_compression_rate <
                         static_cast<double>(parameter.numel.value);
    if (parameter.shape.size() < 2 || !smaller) {
      plan.rest.push_back(parameter);
      plan.rest_numel += parameter.numel;
      continue;
    }
    plan.p += Numel{m.rows * m.rank};
    plan.q += Numel{m.columns * m.rank};
    plan.matrices.push_back(m);
  }
  return plan;
}

void fill_zero_columns(const LowRank& m, const Numbers& q, std::uint64_t seed) {
  for (std::int64_t k = 0; k < m.rank; ++k) {
    bool zero = true;
    for (std::int64_t i = 0; i < m.columns; ++i) {
      zero = zero && q.at(element_at(m.q, i, m.rank, k)) == 0.0F;
    }
    for (std::int64_t i = 0; zero && i < m.columns; ++i) {
      const Numel at = element_at(m.q, i, m.rank, k);
      q.set(at, random_number(seed + static_cast<std::uint64_t>(at.value)));
    }
  }
}

void orthogonalise(std::int64_t rows, std::int64_t rank, Numel offset, const Numbers& matrix) {
  auto dot = [&](std::int64_t a, std::int64_t b) {
    float sum = 0;
    for (std::int64_t i = 0; i < rows; ++i) {
      sum += matrix.at(element_at(offset, i, rank, a)) * matrix.at(element_at(offset, i, rank, b));
    }
    return sum;
  };
  auto remove = [&](std::int64_t k, std::int64_t earlier) {
    const float along = dot(earlier, k);
    for (std::int64_t i = 0; i < rows; ++i) {
      const Numel at = element_at(offset, i, rank, k);
      matrix.set(at, matrix.at(at) - along * matrix.at(element_at(offset, i, rank, earlier)));
    }
  };
  for (std::int64_t k = 0; k < rank; ++k) {
    const float before = std::sqrt(dot(k, k));
    for (int pass = 0; pass < 2; ++pass) {  // once leaves rounding errors behind
      for (std::int64_t earlier = 0; earlier < k; ++earlier) remove(k, earlier);
    }
    const float length = std::sqrt(dot(k, k));
    const bool nothing = length <= rounding_error * before;
    for (std::int64_t i = 0; i < rows; ++i) {
      const Numel at = element_at(offset, i, rank, k);
      matrix.set(at, nothing ? 0.0F : matrix.at(at) / length);
    }
  }
}

void multiply_by_q(const LowRank& m, const Numbers& bucket, const Numbers& q, const Numbers& p) {
  for (std::int64_t i = 0; i < m.rows; ++i) {
    for (std::int64_t k = 0; k < m.rank; ++k) {
      float sum = 0;
      for (std::int64_t j = 0; j < m.columns; ++j) {
        sum +=
            bucket.at(element_at(m.offset, i, m.columns, j)) * q.at(element_at(m.q, j, m.rank, k));
      }
      p.set(element_at(m.p, i, m.rank, k), sum);
    }
  }
}

void multiply_by_p(const LowRank& m, const Numbers& bucket, const Numbers& p, const Numbers& q) {
  for (std::int64_t j = 0; j < m.columns; ++j) {
    for (std::int64_t k = 0; k < m.rank; ++k) {
      float sum = 0;
      for (std::int64_t i = 0; i < m.rows; ++i) {
        sum +=
            bucket.at(element_at(m.offset, i, m.columns, j)) * p.at(element_at(m.p, i, m.rank, k));
      }
      q.set(element_at(m.q, j, m.rank, k), sum);
    }
  }
}

void expand(const LowRank& m, const Numbers& p, const Numbers& q, float divisor,
            const Numbers& bucket) {
  for (std::int64_t i = 0; i < m.rows; ++i) {
    for (std::int64_t j = 0; j < m.columns; ++j) {
      float sum = 0;
      for (std::int64_t k = 0; k < m.rank; ++k) {
        sum += p.at(element_at(m.p, i, m.rank, k)) * q.at(element_at(m.q, j, m.rank, k));
      }
      bucket.set(element_at(m.offset, i, m.columns, j), sum / divisor);
    }
  }
}

}  // namespace tessera
