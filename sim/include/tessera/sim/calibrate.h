// SPDX-License-Identifier: Apache-2.0
// Fits a cluster to collectives that were measured on it.
//
// The idea: NCCL's choice and constants stay; only what a cluster file says of launches, links and
// NVLS moves, by a search along one number after the other.
//
//   CollectiveFit fit = fit_collectives(cluster, samples);
//   fit.cluster;             // the same with other numbers
//   fit.error_of_others;     // 0.03: halves of the samples, each predicted by the other
#pragma once

#include <vector>

#include "tessera/sim/cost_model.h"

namespace tessera::sim {

/// A time that somebody measured.
struct MeasuredCollective {
  CollectiveShape shape;
  double us = 0;
};

struct CollectiveFit {
  Cluster cluster;
  // Mean relative errors of time: of the cluster as it was, fitted, and of samples left out.
  double error_before = 0;
  double error_after = 0;
  double error_of_others = 0;
};

/// REQUIRES: samples, with positive times.
CollectiveFit fit_collectives(const Cluster& cluster,
                              const std::vector<MeasuredCollective>& samples);

/// Mean of |predicted / measured - 1|.
double mean_error(const Cluster& cluster, const std::vector<MeasuredCollective>& samples);

}  // namespace tessera::sim
