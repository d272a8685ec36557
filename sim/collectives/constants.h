// SPDX-License-Identifier: Apache-2.0
// The constants by which NCCL chooses, as its versions have them (tuning.cc).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "tessera/sim/network.h"

namespace tessera::sim {

/// Index of an enumerator into an array.
template <class T>
constexpr std::size_t at(T value) {
  return static_cast<std::size_t>(value);
}

enum class Protocol { ll, ll128, simple };
inline constexpr int protocols = 3;
using PerProtocol = std::array<double, protocols>;

enum class Algorithm { tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree, pat };
inline constexpr int algorithms = 7;

/// "Ring", "LL128": as NCCL_ALGO and NCCL_PROTO take them.
std::string_view name_of(Algorithm algorithm);
std::string_view name_of(Protocol protocol);

enum class Hop { nvlink, pcie, network };

/// By one, two, or more nodes.
using PerNodes = std::array<double, 3>;

/// Times in us, rates in GB/s.
struct Constants {
  std::array<PerProtocol, algorithms> base;                // once
  std::array<std::array<PerProtocol, algorithms>, 3> hop;  // by Hop, per step
  PerNodes ll_most{};                                      // all channels together
  // Per channel:
  PerNodes ring_ll128_most{};
  PerNodes tree_ll128_most{};
  PerNodes tree_most{};
  PerNodes nvls_tree_most{};
  double nvls_efficiency = 0;

  // How formulas differ between versions.
  bool early_rings = false;          // 2.19: LL at a quarter or third, LL128 less with a GPU a node
  bool early_nvls = false;           // before 2.28: no efficiency, a fixed ratio to bus bandwidth
  bool tree_latency_alone = true;    // from 2.20: with a GPU a node rings wait as trees do
  bool has_pat = true;               // from 2.23
  bool nvls_tree_corrected = false;  // from 2.29, Blackwell on x86
};

/// REQUIRES: a version that `knows_version` knows.
Constants constants_of(const NcclFacts& facts, bool one_node);

bool knows_version(std::string_view version);
inline constexpr std::array<std::string_view, 4> nccl_versions = {"2.19", "2.27", "2.28", "2.30"};

/// By which a tree's rate is multiplied at a size (ncclTopoGetAlgoTime); 1 beyond the table.
double tree_correction(Protocol protocol, std::int64_t bytes);

/// Floor of the logarithm; -1 of 0.
int log2_floor(std::int64_t value);

}  // namespace tessera::sim
