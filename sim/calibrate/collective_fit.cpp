// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "sim/calibrate/search.h"
#include "tessera/sim/calibrate.h"
#include "tessera/sim/collective_plan.h"

namespace tessera::sim {
namespace {

std::vector<Knob<Cluster>> knobs_of(const Cluster& cluster,
                                    const std::vector<MeasuredCollective>& samples) {
  bool one_node = false;
  bool several = false;
  for (const MeasuredCollective& sample : samples) {
    (sample.shape.nodes > 1 ? several : one_node) = true;
  }
  std::vector<Knob<Cluster>> knobs = {TESSERA_KNOB(Cluster, collective_floor_ns, 0, 1e7, 2e4)};
  if (one_node) {
    knobs.push_back(TESSERA_KNOB(Cluster, collective_launch_ns, 0, 1e6, 1e4));
    knobs.push_back(TESSERA_KNOB(Cluster, intra_node.efficiency, 0.05, 1, 0.05));
    knobs.push_back(TESSERA_KNOB(Cluster, intra_node.sqrt_ns, 0, 1e6, 5e3));
    if (cluster.nvls.share > 0) {
      knobs.push_back(TESSERA_KNOB(Cluster, nvls.share, 0.1, 3, 0.05));
      knobs.push_back(TESSERA_KNOB(Cluster, nvls.sqrt_ns, 0, 1e6, 5e3));
    }
  }
  if (several) {
    knobs.push_back(TESSERA_KNOB(Cluster, inter_node.launch_ns, 0, 1e7, 2e4));
    knobs.push_back(TESSERA_KNOB(Cluster, inter_node.latency_ns, 0, 1e6, 1e4));
    knobs.push_back(TESSERA_KNOB(Cluster, inter_node.efficiency, 0.05, 1, 0.05));
    knobs.push_back(TESSERA_KNOB(Cluster, inter_node.sqrt_ns, 0, 1e6, 1e4));
  }
  return knobs;
}

// What is left once the numbers are found, size by size.
void measure(Cluster& cluster, const std::vector<MeasuredCollective>& samples) {
  std::map<std::tuple<OpKind, Index, Index>, std::map<std::int64_t, std::vector<double>>> found;
  for (const MeasuredCollective& sample : samples) {
    const CollectiveShape& shape = sample.shape;
    const auto time = static_cast<double>(plan_collective(cluster, shape).time);
    found[{shape.kind, shape.ranks, shape.nodes}][shape.bytes.value].push_back(sample.us * 1e3 /
                                                                               time);
  }
  for (auto& [group, sizes] : found) {
    const auto& [kind, ranks, nodes] = group;
    MeasuredFactors factors{
        .kind = kind, .ranks = ranks, .nodes = nodes, .bytes = {}, .factors = {}};
    for (auto& [bytes, all] : sizes) {
      std::sort(all.begin(), all.end());
      factors.bytes.push_back(Bytes{bytes});
      factors.factors.push_back(all[all.size() / 2]);
    }
    cluster.measured.push_back(std::move(factors));
  }
}

// What an earlier calibration measured of these groups would count twice.
Cluster without_measured(Cluster cluster, const std::vector<MeasuredCollective>& samples) {
  std::erase_if(cluster.measured, [&](const MeasuredFactors& f) {
    return std::any_of(samples.begin(), samples.end(), [&](const MeasuredCollective& sample) {
      const CollectiveShape& shape = sample.shape;
      return f.kind == shape.kind && f.ranks == shape.ranks && f.nodes == shape.nodes;
    });
  });
  return cluster;
}

Cluster fitted(const Cluster& cluster, const std::vector<MeasuredCollective>& samples) {
  const Cluster begin = without_measured(cluster, samples);
  Cluster best = search(begin, knobs_of(begin, samples),
                        [&](const Cluster& c) { return mean_error(c, samples); });
  measure(best, samples);
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
  CollectiveFit fit{.cluster = fitted(cluster, samples)};
  fit.error_before = mean_error(cluster, samples);
  fit.error_after = mean_error(fit.cluster, samples);
  std::vector<MeasuredCollective> halves[2];
  for (std::size_t i = 0; i < samples.size(); ++i) halves[i % 2].push_back(samples[i]);
  for (std::size_t h = 0; h < 2; ++h) {
    const double other = mean_error(fitted(cluster, halves[h]), halves[1 - h]);
    fit.error_of_others += other * static_cast<double>(halves[1 - h].size());
  }
  fit.error_of_others /= static_cast<double>(samples.size());
  return fit;
}

}  // namespace tessera::sim
