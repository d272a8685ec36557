// SPDX-License-Identifier: Apache-2.0
#include "training/language/initial_values.h"

#include <cmath>

namespace tessera::language {
namespace {

// SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

// Nearly normal, deviation 1: the sum of twelve uniform numbers, without logarithm and cosine.
float normal(std::uint64_t seed) {
  std::int32_t sum = 0;
  for (std::uint64_t k = 0; k < 3; ++k) {
    std::uint64_t bits = mixed(seed + k * 0xD1B54A32D192ED03U);
    for (int part = 0; part < 4; ++part, bits >>= 16) {
      sum += static_cast<std::int32_t>(bits & 0xFFFFU);
    }
  }
  return (static_cast<float>(sum) - 6.0F * 65535.0F) / 65536.0F;
}

bool writes_residual(const std::string& name) {
  return name.ends_with("c_proj.weight") || name.ends_with("o_proj.weight") ||
         name.ends_with("down_proj.weight") || name.ends_with("attention.dense.weight") ||
         name.ends_with("dense_4h_to_h.weight");
}

}  // namespace

std::function<float(ParameterId, Numel)> initial_values(const Plan& plan, std::uint64_t seed) {
  struct Kind {
    float centre, deviation;
  };
  std::vector<Kind> kinds;
  for (std::size_t k = 0; k < plan.parameters.size(); ++k) {
    const Parameter& p = plan.parameters[k];
    const bool weight = p.name.ends_with("weight");
    if (p.shape.size() < 2) {
      const bool scales = weight && plan.classes[k].ends_with("Norm") && !plan.norms_about_one;
      kinds.push_back({scales ? 1.0F : 0.0F, 0.0F});
      continue;
    }
    if (p.name.ends_with(".lora_B.weight")) {  // so that an adapter begins as nothing
      kinds.push_back({0, 0});
      continue;
    }
    if (p.name.ends_with(".lora_A.weight")) {  // as PEFT: uniform within 1 / sqrt(in)
      kinds.push_back({0, 1.0F / std::sqrt(3.0F * static_cast<float>(p.shape[1]))});
      continue;
    }
    const float blocks = static_cast<float>(std::max<std::int64_t>(plan.blocks, 1));
    kinds.push_back({0, writes_residual(p.name) ? 0.02F / std::sqrt(2.0F * blocks) : 0.02F});
  }
  return [kinds, seed](ParameterId id, Numel element) {
    const Kind& kind = kinds[id.index()];
    if (kind.deviation == 0) return kind.centre;
    const std::uint64_t place = mixed(mixed(seed) + static_cast<std::uint64_t>(id.value));
    return kind.deviation * normal(mixed(place + static_cast<std::uint64_t>(element.value)));
  };
}

}  // namespace tessera::language
