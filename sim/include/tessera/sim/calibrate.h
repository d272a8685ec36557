// SPDX-License-Identifier: Apache-2.0
// Fits a cluster and a stack to what was measured on a machine: collectives, kernels, whole runs.
//
// The idea: formulas and NCCL's choice stay; only numbers of the cluster file and of the profile
// move, by searches along one number after the other. What is left of collectives is kept size by
// size (Cluster::measured).
//
//   CollectiveFit fit = fit_collectives(cluster, samples);
//   fit.cluster;             // the same with other numbers
//   fit.error_of_others;     // 0.03: halves of the samples, each predicted by the other
#pragma once

#include <string>
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

/// A matmul, or causal attention if it has heads, that somebody measured in 16 bit.
struct MeasuredKernel {
  MatmulShape matmul;
  AttentionShape attention;
  double us = 0;

  bool is_attention() const { return attention.heads > 0; }
};

struct KernelFit {
  Gpu gpu;
  // Relative errors of time, fitted: median, and what 9 in 10 are below; 0 without such samples.
  double matmul_median = 0, matmul_p90 = 0;
  double attention_median = 0, attention_p90 = 0;
};

/// Curves of matmuls and of the attention kernel of that name; those without samples stay.
/// REQUIRES: samples with positive times, gpu.multiprocessors > 0.
KernelFit fit_kernels(const Gpu& gpu, const std::string& attention,
                      const std::vector<MeasuredKernel>& samples);

/// Operations of one part of one run: how long they took in the mean, and by their costs would
/// have.
struct MeasuredPart {
  std::string part;  // as part_of says
  Phase phase = Phase::none;
  double measured_ns = 0, expected_ns = 0;
};

/// PartTimes by least squares of relative errors; a part of which all runs expect the same has a
/// factor alone. REQUIRES: positive times.
std::vector<PartTime> fit_parts(const std::vector<MeasuredPart>& samples);

}  // namespace tessera::sim
