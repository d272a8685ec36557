// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/rope.h"

#include "engine/numbers/parallel.h"
#include "engine/numbers/wide.h"

namespace tessera::kernels {
namespace {

constexpr double pi = 3.14159265358979323846;

// Series: |r| <= ln(2) / 2.
double exponential(double x) {
  constexpr double ln2 = 0.69314718055994530942;
  const auto n = static_cast<std::int64_t>(x / ln2 + (x < 0 ? -0.5 : 0.5));
  const double r = x - static_cast<double>(n) * ln2;
  double term = 1;
  double sum = 1;
  for (int k = 1; k < 20; ++k) sum += term *= r / k;
  for (std::int64_t k = 0; k < (n < 0 ? -n : n); ++k) sum *= n < 0 ? 0.5 : 2.0;
  return sum;
}

// 2 artanh((x - 1) / (x + 1)) of x in [1, 2), and powers of two.
double logarithm(double x) {
  double twos = 0;
  for (; x >= 2; x /= 2) ++twos;
  for (; x < 1; x *= 2) --twos;
  const double q = (x - 1) / (x + 1);
  double power = q;
  double sum = 0;
  for (int k = 1; k < 60; k += 2, power *= q * q) sum += power / k;
  return 2 * sum + twos * 0.69314718055994530942;
}

// Series within [-pi, pi].
void sine_cosine(double angle, double& sine, double& cosine) {
  const double turns = angle / (2 * pi);
  const double x = angle - static_cast<double>(static_cast<std::int64_t>(turns + 0.5)) * (2 * pi);
  double term = 1;
  cosine = 1;
  sine = 0;
  for (int k = 1; k < 40; ++k) {
    term *= x / k;
    const bool negative = (k / 2) % 2 == 1;
    (k % 2 == 1 ? sine : cosine) += negative ? -term : term;
  }
}

// The stretched frequencies of Llama 3.1: long wavelengths are slowed down by `factor`, short ones
// stay, between them a mixture (transformers, modeling_rope_utils.py).
double stretched(const RotaryEmbedding& rotary, double frequency) {
  if (rotary.factor == 1) return frequency;
  const double wavelength = 2 * pi / frequency;
  const double original = static_cast<double>(rotary.original_positions);
  if (wavelength > original / rotary.low_frequency_factor) return frequency / rotary.factor;
  if (wavelength < original / rotary.high_frequency_factor) return frequency;
  const double share = (original / wavelength - rotary.low_frequency_factor) /
                       (rotary.high_frequency_factor - rotary.low_frequency_factor);
  return (1 - share) * frequency / rotary.factor + share * frequency;
}

}  // namespace

RotaryTable rotary_table(const RotaryEmbedding& rotary, std::int64_t head_dim,
                         std::int64_t positions) {
  RotaryTable table{head_dim / 2, {}, {}};
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < table.half; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(head_dim);
    frequencies.push_back(stretched(rotary, exponential(exponent * logarithm(rotary.theta))));
  }
  for (std::int64_t t = 0; t < positions; ++t) {
    for (const double frequency : frequencies) {
      double sine = 0;
      double cosine = 0;
      sine_cosine(static_cast<double>(t) * frequency, sine, cosine);
      table.cosine.push_back(static_cast<float>(cosine));
      table.sine.push_back(static_cast<float>(sine));
    }
  }
  return table;
}

void rotate(const RotaryRows& table, Array x, std::int64_t rows, std::int64_t heads, bool inverse,
            int threads) {
  with_type(x.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const data = x.as<T>();
    const float* const cosines = table.cosine;
    const float* const sines = table.sine;
    const std::int64_t half = table.half;
    const std::int64_t length = table.length;
    const float sign = inverse ? -1.0F : 1.0F;
    parallel(threads, rows, 64, [&](int, std::int64_t begin, std::int64_t end) {
      wide([=]() TESSERA_INLINE {
        for (std::int64_t r = begin; r < end; ++r) {
          const float* const c = cosines + (r % length) * half;
          const float* const s = sines + (r % length) * half;
          for (std::int64_t h = 0; h < heads; ++h) {
            T* const first = data + (r * heads + h) * 2 * half;
            T* const second = first + half;
            for (std::int64_t i = 0; i < half; ++i) {
              const float a = load(first[i]);
              const float b = load(second[i]);
              store(first[i], a * c[i] - sign * b * s[i]);
              store(second[i], b * c[i] + sign * a * s[i]);
            }
          }
        }
      });
    });
  });
}

}  // namespace tessera::kernels
