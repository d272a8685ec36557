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

// Long wavelengths are slowed down by `factor`, short ones stay, between them a mixture
// (transformers, modeling_rope_utils.py).
double as_llama3(const RotaryEmbedding& rotary, double frequency) {
  const double wavelength = 2 * pi / frequency;
  const double original = static_cast<double>(rotary.original_positions);
  if (wavelength > original / rotary.low_frequency_factor) return frequency / rotary.factor;
  if (wavelength < original / rotary.high_frequency_factor) return frequency;
  const double share = (original / wavelength - rotary.low_frequency_factor) /
                       (rotary.high_frequency_factor - rotary.low_frequency_factor);
  return (1 - share) * frequency / rotary.factor + share * frequency;
}

double floor_of(double x) {
  const auto n = static_cast<double>(static_cast<std::int64_t>(x));
  return n > x ? n - 1 : n;
}

// The number of the frequency that turns `turns` times within the original positions (YaRN, arXiv
// 2309.00071, section 3.2).
double place_of(const RotaryEmbedding& rotary, double turns, double head_dim) {
  const double original = static_cast<double>(rotary.original_positions);
  return head_dim * logarithm(original / (turns * 2 * pi)) / (2 * logarithm(rotary.theta));
}

// Frequencies before `low` stay, those behind `high` are slowed down, between them a mixture.
double as_yarn(const RotaryEmbedding& rotary, double frequency, std::int64_t i, double head_dim) {
  double low = place_of(rotary, rotary.beta_fast, head_dim);
  double high = place_of(rotary, rotary.beta_slow, head_dim);
  if (rotary.truncate) {
    low = floor_of(low);
    high = -floor_of(-high);
  }
  low = low < 0 ? 0 : low;
  high = high > head_dim - 1 ? head_dim - 1 : high;
  if (low == high) high += 0.001;
  double slowed = (static_cast<double>(i) - low) / (high - low);
  slowed = slowed < 0 ? 0 : slowed > 1 ? 1 : slowed;
  return frequency / rotary.factor * slowed + frequency * (1 - slowed);
}

double stretched(const RotaryEmbedding& rotary, double frequency, std::int64_t i, double head_dim) {
  switch (rotary.stretch) {
    case RotaryStretch::linear: return frequency / rotary.factor;
    case RotaryStretch::llama3: return as_llama3(rotary, frequency);
    case RotaryStretch::yarn: return as_yarn(rotary, frequency, i, head_dim);
    case RotaryStretch::none:
    case RotaryStretch::dynamic: break;
  }
  return frequency;
}

double scale_by(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * logarithm(factor) + 1;
}

// YaRN makes attention sharper (section 3.4): a factor of cosines and sines.
double attention_factor(const RotaryEmbedding& rotary) {
  if (rotary.stretch != RotaryStretch::yarn) return 1;
  if (rotary.attention_factor > 0) return rotary.attention_factor;
  if (rotary.mscale == 0) return scale_by(rotary.factor, 1);
  return scale_by(rotary.factor, rotary.mscale) / scale_by(rotary.factor, rotary.mscale_all_dim);
}

}  // namespace

std::int64_t rotated_dim(const RotaryEmbedding& rotary, std::int64_t head_dim) {
  return static_cast<std::int64_t>(static_cast<double>(head_dim) * rotary.share);
}

RotaryTable rotary_table(const RotaryEmbedding& rotary, std::int64_t whole_head,
                         std::int64_t positions) {
  const std::int64_t head_dim = rotated_dim(rotary, whole_head);
  RotaryTable table{head_dim / 2, {}, {}};
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < table.half; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(head_dim);
    const double plain = exponential(exponent * logarithm(rotary.theta));
    frequencies.push_back(stretched(rotary, plain, i, static_cast<double>(head_dim)));
  }
  const double factor = attention_factor(rotary);
  for (std::int64_t t = 0; t < positions; ++t) {
    for (const double frequency : frequencies) {
      double sine = 0;
      double cosine = 0;
      sine_cosine(static_cast<double>(t) * frequency, sine, cosine);
      table.cosine.push_back(static_cast<float>(cosine * factor));
      table.sine.push_back(static_cast<float>(sine * factor));
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
    const std::int64_t head_dim = table.head_dim == 0 ? 2 * half : table.head_dim;
    const float sign = inverse ? -1.0F : 1.0F;
    parallel(threads, rows, 64, [&](int, std::int64_t begin, std::int64_t end) {
      wide([=]() TESSERA_INLINE {
        for (std::int64_t r = begin; r < end; ++r) {
          const float* const c = cosines + (r % length) * half;
          const float* const s = sines + (r % length) * half;
          for (std::int64_t h = 0; h < heads; ++h) {
            T* const first = data + (r * heads + h) * head_dim;
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
