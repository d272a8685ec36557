// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "sim/calibrate/search.h"
#include "sim/compute/attention_time.h"
#include "sim/compute/matmul_time.h"
#include "tessera/sim/calibrate.h"

namespace tessera::sim {
namespace {

constexpr double bytes_of_16_bit = 2;

struct Errors {
  double mean = 0, median = 0, p90 = 0;
};

template <class Predicted>
Errors errors_of(const std::vector<MeasuredKernel>& samples, const Predicted& predicted_ns) {
  std::vector<double> errors;
  Errors out;
  for (const MeasuredKernel& sample : samples) {
    errors.push_back(std::abs(predicted_ns(sample) / (sample.us * 1e3) - 1));
    out.mean += errors.back();
  }
  if (errors.empty()) return out;
  out.mean /= static_cast<double>(errors.size());
  std::sort(errors.begin(), errors.end());
  out.median = errors[errors.size() / 2];
  out.p90 = errors[(errors.size() * 9 + 9) / 10 - 1];
  return out;
}

std::vector<Knob<MatmulCurve>> matmul_knobs() {
  return {TESSERA_KNOB(MatmulCurve, start_ns, 0, 1e6, 500),
          TESSERA_KNOB(MatmulCurve, fill_ns, 0, 1e6, 500),
          TESSERA_KNOB(MatmulCurve, whole_waves, 0, 1, 0.1),
          TESSERA_KNOB(MatmulCurve, tile_efficiency[0], 0.01, 1, 0.05),
          TESSERA_KNOB(MatmulCurve, tile_efficiency[1], 0.01, 1, 0.05),
          TESSERA_KNOB(MatmulCurve, tile_efficiency[2], 0.01, 1, 0.05),
          TESSERA_KNOB(MatmulCurve, tile_efficiency[3], 0.01, 1, 0.05),
          TESSERA_KNOB(MatmulCurve, power_loss, 0, 1, 0.05)};
}

std::vector<Knob<AttentionCurve>> attention_knobs() {
  return {TESSERA_KNOB(AttentionCurve, start_ns, 0, 1e6, 500),
          TESSERA_KNOB(AttentionCurve, block_ns, 0, 1e6, 200),
          TESSERA_KNOB(AttentionCurve, forward, 0.01, 1, 0.05),
          TESSERA_KNOB(AttentionCurve, narrow, 0.01, 1, 0.05),
          TESSERA_KNOB(AttentionCurve, backward, 0.01, 2, 0.05)};
}

AttentionCurve& curve_named(Gpu& gpu, const std::string& name) {
  for (AttentionCurve& curve : gpu.attention) {
    if (curve.name == name) return curve;
  }
  AttentionCurve curve{.name = name};
  curve.forward = curve.narrow = 0.5;
  gpu.attention.push_back(curve);
  return gpu.attention.back();
}

}  // namespace

KernelFit fit_kernels(const Gpu& gpu, const std::string& attention,
                      const std::vector<MeasuredKernel>& samples) {
  KernelFit fit{.gpu = gpu};
  std::vector<MeasuredKernel> matmuls, attentions;
  for (const MeasuredKernel& sample : samples) {
    (sample.is_attention() ? attentions : matmuls).push_back(sample);
  }
  const double peak = gpu.bf16_flops_per_s;
  Gpu tried = gpu;
  const auto matmul_errors = [&](const MatmulCurve& curve) {
    tried.matmul = curve;
    return errors_of(matmuls, [&](const MeasuredKernel& sample) {
      return matmul_ns(sample.matmul, tried, peak, bytes_of_16_bit);
    });
  };
  if (!matmuls.empty()) {
    MatmulCurve begin = gpu.matmul.value_or(
        MatmulCurve{.tile_efficiency = {0.7, 0.7, 0.7, 0.7}, .power_flops = 1e12});
    begin.power_flops = std::max(begin.power_flops, 1e11);
    fit.gpu.matmul = search(begin, matmul_knobs(),
                            [&](const MatmulCurve& curve) { return matmul_errors(curve).mean; });
    const Errors errors = matmul_errors(*fit.gpu.matmul);
    fit.matmul_median = errors.median;
    fit.matmul_p90 = errors.p90;
  }
  const auto attention_errors = [&](const AttentionCurve& curve) {
    return errors_of(attentions, [&](const MeasuredKernel& sample) {
      return fused_attention_ns(sample.attention, fit.gpu, curve, peak);
    });
  };
  if (!attentions.empty()) {
    AttentionCurve& curve = curve_named(fit.gpu, attention);
    curve = search(curve, attention_knobs(),
                   [&](const AttentionCurve& c) { return attention_errors(c).mean; });
    const Errors errors = attention_errors(curve);
    fit.attention_median = errors.median;
    fit.attention_p90 = errors.p90;
  }
  return fit;
}

}  // namespace tessera::sim
