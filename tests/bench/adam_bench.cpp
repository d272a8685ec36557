// SPDX-License-Identifier: Apache-2.0
// How long one step of AdamW takes on a CPU, beside a plain loop of the same arithmetic:
//   bench_adam [MILLIONS_OF_ELEMENTS] [THREADS]
// Float32 states, and gradients in float32 and bfloat16. The two take turns; prints medians.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "engine/numbers/adam.h"
#include "engine/numbers/parallel.h"
#include "tests/bench/measure.h"

namespace {

using namespace tessera;  // a program, not a library

constexpr int rounds = 15;

struct Arrays {
  std::vector<float> values, exp_avg, exp_avg_sq;
  explicit Arrays(std::size_t n) : values(n, 1), exp_avg(n, 0.01F), exp_avg_sq(n, 0.001F) {}
};

template <class G>
void plain(const AdamNumbers& a, const std::vector<G>& gradient, Arrays& x) {
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const float g = kernels::load(gradient[i]);
    float& m = x.exp_avg[i];
    float& v = x.exp_avg_sq[i];
    m = a.beta1 * m + (1 - a.beta1) * g;
    v = a.beta2 * v + (1 - a.beta2) * g * g;
    x.values[i] =
        x.values[i] * (1 - a.learning_rate * a.weight_decay) -
        a.learning_rate * (m / a.correction1) / (std::sqrt(v / a.correction2) + a.epsilon);
  }
}

template <class F>
double milliseconds(F&& f) {
  const Time begin = bench::now();
  f();
  return static_cast<double>(bench::now() - begin) / 1e6;
}

template <class G>
void compare(DType dtype, std::size_t numel, int threads) {
  const AdamNumbers a{1e-3F, 0.9F, 0.999F, 1e-8F, 0.01F, 0.5F, 0.1F};
  std::vector<G> gradient(numel);
  for (std::size_t i = 0; i < numel; ++i) {
    kernels::store(gradient[i], static_cast<float>(i % 997) / 1024);
  }
  Arrays one(numel), other(numel);
  const auto array = [](std::vector<float>& of) {
    return kernels::Array{of.data(), DType::float32};
  };
  std::vector<double> plain_ms, vector_ms;
  for (int round = 0; round < rounds; ++round) {
    plain_ms.push_back(milliseconds([&] { plain(a, gradient, one); }));
    vector_ms.push_back(milliseconds([&] {
      kernels::adam(a, {gradient.data(), dtype}, array(other.values), array(other.exp_avg),
                    array(other.exp_avg_sq), static_cast<std::int64_t>(numel), threads);
    }));
  }
  const double bytes = static_cast<double>(numel) * static_cast<double>(6 * 4 + sizeof(G));
  fmt::print("{:8}  plain {:7.2f} ms, ours {:7.2f} ms, {:5.1f} GB/s; {}\n", name_of(dtype),
             bench::median(plain_ms), bench::median(vector_ms),
             bytes / bench::median(vector_ms) / 1e6,
             one.values == other.values ? "equal bits" : "NOT EQUAL");
}

}  // namespace

int main(int argc, char** argv) {
  const auto numel = static_cast<std::size_t>(1e6 * (argc > 1 ? std::atof(argv[1]) : 16));
  const int threads = argc > 2 ? std::atoi(argv[2]) : 1;
  compare<float>(DType::float32, numel, threads);
  compare<kernels::BFloat16>(DType::bfloat16, numel, threads);
}
