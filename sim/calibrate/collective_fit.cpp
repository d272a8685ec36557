// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "tessera/sim/calibrate.h"
#include "tessera/sim/collective_plan.h"

namespace tessera::sim {
namespace {

// A number of the cluster that may move, and by how much at first.
struct Knob {
  double (*get)(const Cluster&);
  void (*set)(Cluster&, double);
  double least, most, step;
};

#define TESSERA_KNOB(member, least, most, step)                                                   \
  Knob {                                                                                          \
    [](const Cluster& c) { return static_cast<double>(c.member); },                               \
        [](Cluster& c, double v) { c.member = static_cast<decltype(c.member)>(v); }, least, most, \
        step                                                                                      \
  }

std::vector<Knob> knobs_of(const Cluster& cluster, const std::vector<MeasuredCollective>& samples) {
  bool one_node = false;
  bool several = false;
  for (const MeasuredCollective& sample : samples) {
    (sample.shape.nodes > 1 ? several : one_node) = true;
  }
  std::vector<Knob> knobs = {TESSERA_KNOB(collective_floor_ns, 0, 1e7, 2e4)};
  if (one_node) {
    knobs.push_back(TESSERA_KNOB(collective_launch_ns, 0, 1e6, 1e4));
    knobs.push_back(TESSERA_KNOB(intra_node.efficiency, 0.05, 1, 0.05));
    knobs.push_back(TESSERA_KNOB(intra_node.sqrt_ns, 0, 1e6, 5e3));
    if (cluster.nvls.share > 0) {
      knobs.push_back(TESSERA_KNOB(nvls.share, 0.1, 3, 0.05));
      knobs.push_back(TESSERA_KNOB(nvls.sqrt_ns, 0, 1e6, 5e3));
    }
  }
  if (several) {
    knobs.push_back(TESSERA_KNOB(inter_node.launch_ns, 0, 1e7, 2e4));
    knobs.push_back(TESSERA_KNOB(inter_node.latency_ns, 0, 1e6, 1e4));
    knobs.push_back(TESSERA_KNOB(inter_node.efficiency, 0.05, 1, 0.05));
    knobs.push_back(TESSERA_KNOB(inter_node.sqrt_ns, 0, 1e6, 1e4));
  }
  return knobs;
}

#undef TESSERA_KNOB

// Halves the steps as long as no knob helps; each round costs two predictions a knob and sample.
Cluster search(Cluster best, const std::vector<MeasuredCollective>& samples) {
  constexpr int rounds_max = 400;
  constexpr double finest = 1.0 / 256;
  const std::vector<Knob> knobs = knobs_of(best, samples);
  double error = mean_error(best, samples);
  double scale = 4;
  for (int round = 0; round < rounds_max && scale > finest; ++round) {
    bool better = false;
    for (const Knob& knob : knobs) {
      for (const double direction : {1.0, -1.0}) {
        Cluster tried = best;
        const double moved = knob.get(best) + direction * scale * knob.step;
        knob.set(tried, std::clamp(moved, knob.least, knob.most));
        const double found = mean_error(tried, samples);
        if (found >= error) continue;
        best = tried;
        error = found;
        better = true;
      }
    }
    if (!better) scale /= 2;
  }
  return best;
}

}  // namespace

double mean_error(const Cluster& cluster, const std::vector<MeasuredCollective>& samples) {
  double sum = 0;
  for (const MeasuredCollective& sample : samples) {
    const auto time = static_cast<double>(plan_collective(cluster, sample.shape).time);
    sum += std::abs(time / (sample.us * 1e3) - 1);
  }
  return samples.empty() ? 0 : sum / static_cast<double>(samples.size());
}

CollectiveFit fit_collectives(const Cluster& cluster,
                              const std::vector<MeasuredCollective>& samples) {
  CollectiveFit fit{.cluster = search(cluster, samples)};
  fit.error_before = mean_error(cluster, samples);
  fit.error_after = mean_error(fit.cluster, samples);
  std::vector<MeasuredCollective> halves[2];
  for (std::size_t i = 0; i < samples.size(); ++i) halves[i % 2].push_back(samples[i]);
  for (std::size_t h = 0; h < 2; ++h) {
    const double other = mean_error(search(cluster, halves[h]), halves[1 - h]);
    fit.error_of_others += other * static_cast<double>(halves[1 - h].size());
  }
  fit.error_of_others /= static_cast<double>(samples.size());
  return fit;
}

}  // namespace tessera::sim
